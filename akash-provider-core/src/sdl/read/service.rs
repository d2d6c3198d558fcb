//! Services: image, process, ports, mounts, login.

use super::value::{MapFields, ValueRef};
use crate::manifest::image;
use crate::manifest::{
    Credentials, HttpOptions, MAX_BODY, MAX_PROXY_BUFFER, MAX_PROXY_TIMEOUT, NEXT_CASES, Permissions, Proto,
    check_hostname, is_env_name, is_service_name,
};
use crate::sdl::diagnostics::Diagnostics;
use crate::sdl::document::{Expose, Mount, Params, SdlService, To};
use crate::sdl::fault::{ErrorKind, SdlError, truncated};
use std::collections::BTreeMap;

pub(super) fn service(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<SdlService, SdlError> {
    let fields = at.map()?;
    fields.warn_others(
        &[
            "image",
            "command",
            "args",
            "env",
            "expose",
            "dependencies",
            "params",
            "credentials",
        ],
        notes,
    );
    let name = at.spot.path.strip_prefix("services.").unwrap_or_default();
    if !is_service_name(name) {
        let problem = format!("`{}` cannot be the name of a service", truncated(name));
        let help =
            "use at most 63 characters of a-z, 0-9 and `-`, starting with a letter and not ending with `-`";
        notes.wrong(at.spot.error(ErrorKind::Invalid, problem, help));
    }
    let image = image(&fields);
    let image = notes.keep(image).unwrap_or_default();
    let texts = |name: &str, notes: &mut Diagnostics| {
        let texts = fields.texts(name, notes);
        notes.keep(texts).flatten()
    };
    let env = texts("env", notes);
    check_env(&fields, env.as_deref(), notes);
    let dependencies = dependencies(&fields, notes);
    notes.keep(dependencies);
    let mut exposes = Vec::new();
    let items = fields.get("expose").map(|at| at.list(notes)).transpose();
    for item in notes.keep(items).flatten().unwrap_or_default() {
        let expose = expose(&item, notes);
        exposes.extend(notes.keep(expose));
    }
    let params = fields.get("params").map(|at| params(&at, notes)).transpose();
    let params = notes.keep(params).flatten();
    let credentials = fields
        .get("credentials")
        .map(|at| credentials(&at, notes))
        .transpose();
    Ok(SdlService {
        spot: at.spot.clone(),
        image: image.to_owned(),
        command: texts("command", notes),
        args: texts("args", notes),
        env,
        expose: exposes,
        params,
        credentials: notes.keep(credentials).flatten(),
    })
}

fn image<'a>(fields: &MapFields<'a>) -> Result<&'a str, SdlError> {
    let help = "name a container image";
    let at = fields.required("image", help)?;
    match at.text()? {
        "" => Err(at.spot.error(ErrorKind::MissingField, "the image is empty", help)),
        text => match image::check(text) {
            Ok(()) => Ok(text),
            Err(problem) => {
                let problem = format!("`{}` is not a container image: {problem}", truncated(text));
                let help = "write the image as `[REGISTRY/]PATH[:TAG][@DIGEST]`";
                Err(at.spot.error(ErrorKind::Invalid, problem, help))
            }
        },
    }
}

fn dependencies(fields: &MapFields<'_>, notes: &mut Diagnostics) -> Result<(), SdlError> {
    // Only validated, because the manifest does not contain dependencies.
    if let Some(at) = fields.get("dependencies") {
        for item in at.list(notes)? {
            let item = item.map()?;
            item.warn_others(&["service"], notes);
            item.text("service")?;
        }
    }
    Ok(())
}

fn check_env(fields: &MapFields<'_>, env: Option<&[String]>, notes: &mut Diagnostics) {
    let names = env
        .into_iter()
        .flatten()
        .map(|line| line.split_once('=').map_or(line.as_str(), |(name, _)| name));
    for bad in names.filter(|name| !is_env_name(name)) {
        let problem = format!("`{}` cannot be the name of a variable", truncated(bad));
        let help = "write `- NAME=value`; a name contains only letters, digits, `_`, `-` and `.`, and \
                    does not start with a digit";
        let spot = fields
            .present("env")
            .map_or_else(|| fields.spot.clone(), |at| at.spot);
        notes.wrong(spot.error(ErrorKind::Invalid, problem, help));
    }
}

fn expose(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Expose, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["port", "as", "proto", "to", "accept", "http_options"], notes);
    let port = inner_port(&fields);
    let port = notes.keep(port).unwrap_or_default();
    let external = fields.get("as").map(|at| self::port(&at)).transpose();
    let external = notes.keep(external).flatten().unwrap_or_default();
    let proto = notes.keep(proto(&fields)).unwrap_or(Proto::Tcp);
    let mut targets = Vec::new();
    if let Some(at) = fields.get("to") {
        for item in at.list(notes)? {
            let to = to(&item, notes);
            targets.extend(notes.keep(to));
        }
    }
    Ok(Expose {
        spot: at.spot.clone(),
        port,
        external,
        proto,
        to: targets,
        hosts: fields.get("accept").map(|at| hosts(&at, notes)).transpose()?,
        http: match fields.get("http_options") {
            Some(at) => http_options(&at, notes)?,
            None => HttpOptions::default(),
        },
    })
}

fn inner_port(fields: &MapFields<'_>) -> Result<u16, SdlError> {
    const HELP: &str = "use 1 to 65535";
    let at = fields.required("port", HELP)?;
    match port(&at)? {
        0 => Err(at.spot.error(ErrorKind::Invalid, "the port is 0", HELP)),
        port => Ok(port),
    }
}

fn proto(fields: &MapFields<'_>) -> Result<Proto, SdlError> {
    match fields.text("proto")?.to_ascii_uppercase().as_str() {
        "" | "TCP" => Ok(Proto::Tcp),
        "UDP" => Ok(Proto::Udp),
        other => {
            let spot = fields
                .present("proto")
                .map_or_else(|| fields.spot.clone(), |at| at.spot);
            let problem = format!("there is no protocol `{}` here", truncated(other));
            Err(spot.error(ErrorKind::Invalid, problem, "use `tcp` or `udp`"))
        }
    }
}

fn port(at: &ValueRef<'_>) -> Result<u16, SdlError> {
    const HELP: &str = "use 1 to 65535, without quotes";
    let with_mend = |error| SdlError {
        help: HELP.to_owned(),
        ..error
    };
    let value = at.whole(u32::from(u16::MAX)).map_err(with_mend)?;
    u16::try_from(value).map_err(|_| {
        at.spot
            .error(ErrorKind::Invalid, "the port is out of range", HELP)
    })
}

fn hosts(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Vec<String>, SdlError> {
    let mut hosts = Vec::new();
    for item in at.list(notes)? {
        let host = item.text()?;
        if let Err(fault) = check_hostname(host) {
            let problem = format!("`{}` {fault}", truncated(host));
            notes.wrong(item.spot.error(ErrorKind::Invalid, problem, fault.help()));
        }
        hosts.push(host.to_owned());
    }
    Ok(hosts)
}

fn to(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<To, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["service", "global", "ip", "http_options"], notes);
    if let Some(at) = fields.present("http_options") {
        let problem = "options here have no effect";
        notes.warn(at.spot.warning(problem, "move them up to the expose"));
    }
    Ok(To {
        spot: at.spot.clone(),
        service: fields.text("service")?.to_owned(),
        global: fields.flag("global")?,
        ip: fields.text("ip")?.to_owned(),
    })
}

fn http_options(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<HttpOptions, SdlError> {
    let fields = at.map()?;
    fields.warn_others(
        &[
            "max_body_size",
            "proxy_buffer_size",
            "read_timeout",
            "send_timeout",
            "next_tries",
            "next_timeout",
            "next_cases",
        ],
        notes,
    );
    let preset = HttpOptions::default();
    // Zero means a missing option, as in the network's tools.
    let or = |value: u32, preset: u32| if value == 0 { preset } else { value };
    let cases = match fields.get("next_cases") {
        Some(at) => next_cases(&at, notes)?,
        None => Vec::new(),
    };
    Ok(HttpOptions {
        max_body_size: or(fields.whole("max_body_size", MAX_BODY)?, preset.max_body_size),
        proxy_buffer_size: fields.whole("proxy_buffer_size", MAX_PROXY_BUFFER)?,
        read_timeout: or(
            fields.whole("read_timeout", MAX_PROXY_TIMEOUT)?,
            preset.read_timeout,
        ),
        send_timeout: or(
            fields.whole("send_timeout", MAX_PROXY_TIMEOUT)?,
            preset.send_timeout,
        ),
        next_tries: or(fields.whole("next_tries", u32::MAX)?, preset.next_tries),
        next_timeout: fields.whole("next_timeout", u32::MAX)?,
        next_cases: if cases.is_empty() {
            preset.next_cases
        } else {
            Some(cases)
        },
    })
}

fn next_cases(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Vec<String>, SdlError> {
    let cases = at.texts(notes)?;
    let error = |problem: String| {
        let help = format!(
            "use some of {}; `off` must be the only case",
            NEXT_CASES.join(", ")
        );
        Err(at.spot.error(ErrorKind::Invalid, problem, help))
    };
    if let Some(bad) = cases.iter().find(|case| !NEXT_CASES.contains(&case.as_str())) {
        return error(format!("unknown case `{}`", truncated(bad)));
    }
    if cases.len() > 1 && cases.iter().any(|case| case == "off") {
        return error("`off` is used with other cases".to_owned());
    }
    Ok(cases)
}

fn params(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Params, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["storage", "permissions", "tee"], notes);
    let mut storage = BTreeMap::new();
    if let Some(at) = fields.get("storage") {
        for (name, at) in at.map()?.each() {
            let fields = at.map()?;
            fields.warn_others(&["mount", "readOnly"], notes);
            let mount = fields.text("mount")?.to_owned();
            let read_only = fields.flag("readOnly")?;
            let spot = at.spot;
            storage.insert(
                name.to_owned(),
                Mount {
                    spot,
                    mount,
                    read_only,
                },
            );
        }
    }
    let permissions = match fields.get("permissions") {
        Some(at) => Some(permissions(&at, notes)?),
        None => None,
    };
    let tee = match fields.get("tee") {
        Some(at) => match at.text()? {
            "" => None,
            kind @ ("cpu" | "cpu-gpu") => Some((at.spot.clone(), kind.to_owned())),
            other => {
                let problem = format!(
                    "there is no confidential computing of type `{}`",
                    truncated(other)
                );
                return Err(at
                    .spot
                    .error(ErrorKind::Invalid, problem, "use `cpu` or `cpu-gpu`"));
            }
        },
        None => None,
    };
    Ok(Params {
        storage,
        permissions,
        tee,
    })
}

fn permissions(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Permissions, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["read"], notes);
    let read = fields.texts("read", notes)?;
    let supported = ["deployment", "logs", "events"];
    for name in read
        .iter()
        .flatten()
        .filter(|name| !supported.contains(&name.as_str()))
    {
        let problem = format!("unknown permission `{}`", truncated(name));
        notes.warn(at.spot.warning(problem, "use some of deployment, logs, events"));
    }
    Ok(Permissions { read })
}

fn credentials(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Credentials, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["host", "email", "username", "password"], notes);
    for name in ["host", "username", "password"] {
        let help = "add the `host` of the image registry, and your `username` and `password`";
        if fields.required(name, help)?.text()?.trim().is_empty() {
            let problem = format!("`{name}` is empty");
            return Err(fields.spot.error(ErrorKind::MissingField, problem, help));
        }
    }
    let credentials = Credentials {
        host: fields.text("host")?.to_owned(),
        email: fields.text("email")?.to_owned(),
        username: fields.text("username")?.to_owned(),
        password: fields.text("password")?.to_owned(),
    };
    // Minimum lengths in the schema of the network, which its parser does not check.
    for (name, text, least) in [
        ("email", &credentials.email, 5),
        ("password", &credentials.password, 6),
    ] {
        if let Some(at) = fields.get(name).filter(|_| text.chars().count() < least) {
            let problem = format!("other tools refuse a value of `{name}` shorter than {least} characters");
            notes.warn(at.spot.warning(problem, "use a longer one"));
        }
    }
    Ok(credentials)
}
