//! A service: image, process, ports, mounts, login.

use super::at::{At, Fields};
use crate::manifest::{
    Credentials, HttpOptions, MAX_BODY, MAX_PROXY_BUFFER, MAX_PROXY_TIMEOUT, NEXT_CASES, Permissions, Proto,
    is_env_name, is_hostname, is_service_name,
};
use crate::sdl::document::{Expose, Mount, Params, Service, To};
use crate::sdl::fault::{ErrorKind, SdlError, Warning, shown};
use std::collections::BTreeMap;

/// Reads a service.
pub(super) fn service(at: &At<'_>, warnings: &mut Vec<Warning>) -> Result<Service, SdlError> {
    let fields = at.map()?;
    fields.only(&[
        "image",
        "command",
        "args",
        "env",
        "expose",
        "dependencies",
        "params",
        "credentials",
    ])?;
    let name = at.spot.path.strip_prefix("services.").unwrap_or_default();
    if !is_service_name(name) {
        let problem = format!("`{}` cannot be the name of a service", shown(name));
        let mend = "use at most 63 of a-z, 0-9 and `-`, starting with a letter and not ending with `-`";
        return Err(at.spot.error(ErrorKind::Invalid, problem, mend));
    }
    let image = fields.required("image", "name a container image")?;
    let env = fields.texts("env", warnings)?;
    check_env(&fields, env.as_deref())?;
    if let Some(at) = fields.get("dependencies") {
        for item in at.list(warnings)? {
            let item = item.map()?;
            item.only(&["service"])?;
            item.text("service")?;
        }
    }
    let mut exposes = Vec::new();
    if let Some(at) = fields.get("expose") {
        for item in at.list(warnings)? {
            exposes.push(expose(&item, warnings)?);
        }
    }
    let text = image.text()?;
    if text.is_empty() {
        return Err(image.spot.error(
            ErrorKind::MissingField,
            "the image is empty",
            "name a container image",
        ));
    }
    Ok(Service {
        spot: at.spot.clone(),
        image: text.to_owned(),
        command: fields.texts("command", warnings)?,
        args: fields.texts("args", warnings)?,
        env,
        expose: exposes,
        params: fields.get("params").map(|at| params(&at, warnings)).transpose()?,
        credentials: fields
            .get("credentials")
            .map(|at| credentials(&at, warnings))
            .transpose()?,
    })
}

fn check_env(fields: &Fields<'_>, env: Option<&[String]>) -> Result<(), SdlError> {
    let name = |line: &str| line.split_once('=').map_or(line, |(name, _)| name).to_owned();
    let Some(bad) = env
        .into_iter()
        .flatten()
        .map(|line| name(line))
        .find(|name| !is_env_name(name))
    else {
        return Ok(());
    };
    let problem = format!("`{}` cannot be the name of a variable", shown(&bad));
    let mend =
        "write `- NAME=value` with letters, digits, `_`, `-` and `.` in the name, not starting with a digit";
    let spot = fields
        .present("env")
        .map_or_else(|| fields.spot.clone(), |at| at.spot);
    Err(spot.error(ErrorKind::Invalid, problem, mend))
}

fn expose(at: &At<'_>, warnings: &mut Vec<Warning>) -> Result<Expose, SdlError> {
    let fields = at.map()?;
    fields.only(&["port", "as", "proto", "to", "accept", "http_options"])?;
    let port_at = fields.required("port", "use 1 to 65535")?;
    let port = port(&port_at)?;
    if port == 0 {
        return Err(port_at
            .spot
            .error(ErrorKind::Invalid, "the port is 0", "use 1 to 65535"));
    }
    let external = fields.get("as").map_or(Ok(0), |at| self::port(&at))?;
    let proto = match fields.text("proto")?.to_ascii_uppercase().as_str() {
        "" | "TCP" => Proto::Tcp,
        "UDP" => Proto::Udp,
        other => {
            let spot = fields
                .present("proto")
                .map_or_else(|| fields.spot.clone(), |at| at.spot);
            let problem = format!("there is no protocol `{}` here", shown(other));
            return Err(spot.error(ErrorKind::Invalid, problem, "use `tcp` or `udp`"));
        }
    };
    let mut targets = Vec::new();
    if let Some(at) = fields.get("to") {
        for item in at.list(warnings)? {
            targets.push(to(&item, warnings)?);
        }
    }
    Ok(Expose {
        spot: at.spot.clone(),
        port,
        external,
        proto,
        to: targets,
        hosts: fields.get("accept").map(|at| hosts(&at, warnings)).transpose()?,
        http: match fields.get("http_options") {
            Some(at) => http_options(&at, warnings)?,
            None => HttpOptions::default(),
        },
    })
}

fn port(at: &At<'_>) -> Result<u16, SdlError> {
    const MEND: &str = "use 1 to 65535, without quotes";
    let with_mend = |error| SdlError {
        mend: MEND.to_owned(),
        ..error
    };
    let value = at.whole(u32::from(u16::MAX)).map_err(with_mend)?;
    u16::try_from(value).map_err(|_| {
        at.spot
            .error(ErrorKind::Invalid, "the port is out of range", MEND)
    })
}

fn hosts(at: &At<'_>, warnings: &mut Vec<Warning>) -> Result<Vec<String>, SdlError> {
    let mut hosts = Vec::new();
    for item in at.list(warnings)? {
        let host = item.text()?;
        if !is_hostname(host) {
            let problem = format!("`{}` is not a hostname", shown(host));
            let mend = "use lower-case labels of a-z, 0-9 and `-` with dots between, at most 253 characters";
            return Err(item.spot.error(ErrorKind::Invalid, problem, mend));
        }
        hosts.push(host.to_owned());
    }
    Ok(hosts)
}

fn to(at: &At<'_>, warnings: &mut Vec<Warning>) -> Result<To, SdlError> {
    let fields = at.map()?;
    fields.only(&["service", "global", "ip", "http_options"])?;
    if let Some(at) = fields.present("http_options") {
        let problem = "options here have no effect";
        warnings.push(at.spot.warning(problem, "move them up to the expose"));
    }
    Ok(To {
        spot: at.spot.clone(),
        service: fields.text("service")?.to_owned(),
        global: fields.flag("global")?,
        ip: fields.text("ip")?.to_owned(),
    })
}

fn http_options(at: &At<'_>, warnings: &mut Vec<Warning>) -> Result<HttpOptions, SdlError> {
    let fields = at.map()?;
    fields.only(&[
        "max_body_size",
        "proxy_buffer_size",
        "read_timeout",
        "send_timeout",
        "next_tries",
        "next_timeout",
        "next_cases",
    ])?;
    let preset = HttpOptions::default();
    let or = |value: u32, preset: u32| if value == 0 { preset } else { value };
    let cases = match fields.get("next_cases") {
        Some(at) => next_cases(&at, warnings)?,
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

fn next_cases(at: &At<'_>, warnings: &mut Vec<Warning>) -> Result<Vec<String>, SdlError> {
    let cases = at.texts(warnings)?;
    let error = |problem: String| {
        let mend = format!("use some of {}; `off` stands alone", NEXT_CASES.join(", "));
        Err(at.spot.error(ErrorKind::Invalid, problem, mend))
    };
    if let Some(bad) = cases.iter().find(|case| !NEXT_CASES.contains(&case.as_str())) {
        return error(format!("there is no case `{}`", shown(bad)));
    }
    if cases.len() > 1 && cases.iter().any(|case| case == "off") {
        return error("`off` is here with other cases".to_owned());
    }
    Ok(cases)
}

fn params(at: &At<'_>, warnings: &mut Vec<Warning>) -> Result<Params, SdlError> {
    let fields = at.map()?;
    fields.only(&["storage", "permissions", "tee"])?;
    let mut storage = BTreeMap::new();
    if let Some(at) = fields.get("storage") {
        for (name, at) in at.map()?.each() {
            let fields = at.map()?;
            fields.only(&["mount", "readOnly"])?;
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
        Some(at) => Some(permissions(&at, warnings)?),
        None => None,
    };
    let tee = match fields.get("tee") {
        Some(at) => match at.text()? {
            "" => None,
            kind @ ("cpu" | "cpu-gpu") => Some((at.spot.clone(), kind.to_owned())),
            other => {
                let problem = format!("there is no confidential computing of type `{}`", shown(other));
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

fn permissions(at: &At<'_>, warnings: &mut Vec<Warning>) -> Result<Permissions, SdlError> {
    let fields = at.map()?;
    fields.only(&["read"])?;
    let read = fields.texts("read", warnings)?;
    let known = ["deployment", "logs", "events"];
    for name in read
        .iter()
        .flatten()
        .filter(|name| !known.contains(&name.as_str()))
    {
        let problem = format!("no provider knows the permission `{}`", shown(name));
        warnings.push(at.spot.warning(problem, "use some of deployment, logs, events"));
    }
    Ok(Permissions { read })
}

fn credentials(at: &At<'_>, warnings: &mut Vec<Warning>) -> Result<Credentials, SdlError> {
    let fields = at.map()?;
    fields.only(&["host", "email", "username", "password"])?;
    for name in ["host", "username", "password"] {
        let mend = "give host, username and password";
        if fields.required(name, mend)?.text()?.trim().is_empty() {
            let problem = format!("`{name}` is empty");
            return Err(fields.spot.error(ErrorKind::MissingField, problem, mend));
        }
    }
    let credentials = Credentials {
        host: fields.text("host")?.to_owned(),
        email: fields.text("email")?.to_owned(),
        username: fields.text("username")?.to_owned(),
        password: fields.text("password")?.to_owned(),
    };
    // Lengths the network's schema asks for and its parser does not.
    for (name, text, least) in [
        ("email", &credentials.email, 5),
        ("password", &credentials.password, 6),
    ] {
        if let Some(at) = fields.get(name).filter(|_| text.chars().count() < least) {
            let problem = format!("other tools refuse a value of `{name}` shorter than {least} characters");
            warnings.push(at.spot.warning(problem, "use a longer one"));
        }
    }
    Ok(credentials)
}
