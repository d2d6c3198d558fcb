//! `tx provider`.

use super::send::send;
use super::{TxAccount, node};
use crate::args::TxArgs;
use crate::args::tx::ProviderTx;
use akash_provider_chain::proto::akash::base::attributes::v1::Attribute as WireAttribute;
use akash_provider_chain::proto::akash::provider::v1beta4::{Info, MsgCreateProvider, MsgUpdateProvider};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::block_on;
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::{Attribute, ProviderRecord};
use akash_provider_service::audit::this_process;
use akash_provider_service::provider_file::ProviderFile;
use anyhow::{Context, bail};
use prost::{Message, Name};
use prost_types::Any;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(command: &ProviderTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let path = command.file();
    let file = ProviderFile::read(path)?;
    file.check_host()
        .with_context(|| format!("invalid provider.yaml {}", path.display()))?;
    let account = TxAccount::from_args(args, home)?;
    block_on(async {
        let kind = match command {
            ProviderTx::Create { .. } => ActKind::ProviderCreate,
            ProviderTx::Update { .. } => ActKind::ProviderUpdate,
            ProviderTx::Apply { .. } => match needed(&file, args, &account).await? {
                Some(kind) => kind,
                None => {
                    eprintln!("the record of {} is up to date", account.address);
                    return Ok(ExitCode::SUCCESS);
                }
            },
        };
        let message = message(&file, kind == ActKind::ProviderCreate, &account);
        let mut act = Act::new(kind, this_process(), account.address.as_str());
        act.evidence.request = Some(file.host.clone());
        send(args, &account, vec![message], act).await
    })
}

/// Returns the transaction that makes the record on the chain equal to the file; `None` if it is equal.
async fn needed(file: &ProviderFile, args: &TxArgs, account: &TxAccount) -> anyhow::Result<Option<ActKind>> {
    let Some(node) = node(args)? else {
        bail!(WithHelp::new(
            "`tx provider apply` needs a node, because it compares the file with the record on the chain",
            "remove --offline, or use `tx provider create` or `tx provider update`"
        ))
    };
    Ok(match node.provider(&account.address).await? {
        None => Some(ActKind::ProviderCreate),
        Some(record) if is_equal(file, &record) => None,
        Some(_) => Some(ActKind::ProviderUpdate),
    })
}

fn is_equal(file: &ProviderFile, record: &ProviderRecord) -> bool {
    // The order of the attributes has no meaning.
    let [wanted, recorded] =
        [&file.attributes, &record.attributes].map(|attributes| attributes.iter().collect::<BTreeSet<_>>());
    file.host == record.host_uri
        && file.email == record.info.email
        && file.website == record.info.website
        && wanted == recorded
}

fn message(file: &ProviderFile, is_new: bool, account: &TxAccount) -> Any {
    let owner = account.address.to_string();
    let info = Some(Info {
        email: file.email.clone(),
        website: file.website.clone(),
    });
    let pair = |a: &Attribute| WireAttribute {
        key: a.key.clone(),
        value: a.value.clone(),
    };
    let (host_uri, attributes) = (file.host.clone(), file.attributes.iter().map(pair).collect());
    if is_new {
        return pack(&MsgCreateProvider {
            owner,
            host_uri,
            attributes,
            info,
        });
    }
    pack(&MsgUpdateProvider {
        owner,
        host_uri,
        attributes,
        info,
    })
}

fn pack<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}
