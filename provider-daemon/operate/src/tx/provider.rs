//! `tx provider`.

use super::TxAccount;
use super::send::send;
use crate::args::TxArgs;
use crate::args::tx::ProviderTx;
use akash_provider_chain::proto::akash::base::attributes::v1::Attribute as WireAttribute;
use akash_provider_chain::proto::akash::provider::v1beta4::{Info, MsgCreateProvider, MsgUpdateProvider};
use akash_provider_cli::node::block_on;
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_core::types::Attribute;
use akash_provider_service::audit::this_process;
use akash_provider_service::provider_file::ProviderFile;
use anyhow::Context;
use prost::{Message, Name};
use prost_types::Any;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(command: &ProviderTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let (ProviderTx::Create { file: path } | ProviderTx::Update { file: path }) = command;
    let file = ProviderFile::read(path)?;
    file.check_host()
        .with_context(|| format!("invalid provider.yaml {}", path.display()))?;
    let account = TxAccount::from_args(args, home)?;
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
    let message = match command {
        ProviderTx::Create { .. } => pack(&MsgCreateProvider {
            owner,
            host_uri,
            attributes,
            info,
        }),
        ProviderTx::Update { .. } => pack(&MsgUpdateProvider {
            owner,
            host_uri,
            attributes,
            info,
        }),
    };
    let kind = match command {
        ProviderTx::Create { .. } => ActKind::ProviderCreate,
        ProviderTx::Update { .. } => ActKind::ProviderUpdate,
    };
    let mut act = Act::new(kind, this_process(), account.address.as_str());
    act.evidence.request = Some(file.host.clone());
    block_on(send(args, &account, vec![message], act))
}

fn pack<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}
