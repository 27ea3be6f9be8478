"""HTTP settings and requests that both clients share."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode
from urllib.request import getproxies, proxy_bypass

import httpx

from ._calls import Call
from .errors import Corrupt, InvalidInput
from .models import Unreadable

TIMEOUT = 60.0
"""The default deadline of a call, in seconds: the time that the server allows for a request."""

NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate authority. For plain HTTP, since loading all authorities takes longer than a call."""

# Fewer concurrent requests than the server allows one caller, so that it refuses none.
_CONNECTIONS = 100

STREAMS = {"limits": httpx.Limits(max_connections=None, max_keepalive_connections=0)}
"""The different options of a client for streams: it shares no connections with calls, and keeps none open."""


def options(url: str, token: str | None) -> dict[str, Any]:
    """The options of an HTTP client for a server. A server on this machine is never reached through a proxy."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidInput("the address of a server must be a URL, as in Memory.connect('http://127.0.0.1:7700')")
    if parsed.userinfo:
        raise InvalidInput("the URL of a server must hold no password: give its token as the second argument")
    is_local = parsed.host in ("127.0.0.1", "::1", "localhost")
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token is not None:
        if not token.isascii() or not token.isprintable() or not token.strip():
            raise InvalidInput("a token must have visible ASCII characters only")
        headers["Authorization"] = f"Bearer {token}"
    limits = httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
    # Certificates are loaded once for calls and streams.
    verify = NO_AUTHORITIES if is_local and parsed.scheme == "http" else httpx.create_ssl_context(trust_env=not is_local)
    proxy = None if is_local else _proxy(parsed)
    return {"base_url": url, "headers": headers, "limits": limits, "trust_env": False, "timeout": None, "verify": verify, "proxy": proxy}


def transport(settings: dict[str, Any]) -> dict[str, Any]:
    """The options among these that a transport of httpx takes. Calls go by one: a client looks for cookies, redirects and logins, which no
    answer has, and takes as long for it as for the rest."""
    return {name: settings[name] for name in ("limits", "trust_env", "verify", "proxy")}


def _proxy(url: httpx.URL) -> str | None:
    """The proxy for a server according to the environment; ``None`` if there is none."""
    proxies = getproxies()
    return None if proxy_bypass(url.host) else proxies.get(url.scheme, proxies.get("all"))


def request_of(streams: httpx.Client | httpx.AsyncClient, call: Call[Any], seconds: float | None = None) -> httpx.Request:
    """The HTTP request of a call. httpx logs it without its parameters."""
    query = f"?{urlencode(call.params)}" if call.params else ""
    url = _Unquoted(str(streams.base_url).removesuffix("/") + call.path + query)
    headers = streams.headers
    if call.headers:
        headers = httpx.Headers(headers)
        headers.update(call.headers)
    # Equal to that of `build_request`, which parses the URL five times.
    extensions = {"timeout": httpx.Timeout(seconds).as_dict()}
    request = httpx.Request(call.method, url, headers=headers, content=call.body, extensions=extensions)
    request.url = url
    return request


class _Unquoted(httpx.URL):
    """A URL whose text omits the query string."""

    def __str__(self) -> str:
        return str(self.copy_with(query=None))


def error_of_unreadable(rows: Iterable[Unreadable]) -> None:
    """Raises :class:`Corrupt` for the first of these rows, if there are any."""
    for row in rows:
        raise Corrupt(f"the row {row.id or 'of an unknown id'} can't be read: {row.reason}")
