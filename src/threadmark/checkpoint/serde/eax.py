"""LangGraph's encrypted form: AES in EAX mode, put together from CMAC and CTR (spec 12.5).

EAX as its authors define it: three CMACs, each over a block that numbers it, of nonce, header and ciphertext, joined
by xor. A blob is 16 bytes nonce, 16 bytes tag, ciphertext; LangGraph gives no header.
"""

from __future__ import annotations

import hmac

__all__ = ["open_eax", "open_gcm", "seal_eax"]

_BLOCK = 16


def seal_eax(key: bytes, nonce: bytes, plain: bytes) -> bytes:
    """Nonce, tag and ciphertext, as LangGraph stores them."""
    start = _omac(key, 0, nonce)
    sealed = _ctr(key, start, plain)
    return nonce + _tag(key, start, sealed) + sealed


def open_eax(key: bytes, blob: bytes) -> bytes | None:
    """The plaintext; None when the bytes are not what was sealed with this key."""
    if len(blob) < 2 * _BLOCK:
        return None
    nonce, tag, sealed = blob[:_BLOCK], blob[_BLOCK : 2 * _BLOCK], blob[2 * _BLOCK :]
    start = _omac(key, 0, nonce)
    if not hmac.compare_digest(tag, _tag(key, start, sealed)):
        return None
    return _ctr(key, start, sealed)


def open_gcm(key: bytes, blob: bytes) -> bytes | None:
    """The same for a blob that LangGraph made with ``mode=AES.MODE_GCM``."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(blob) < 2 * _BLOCK:
        return None
    try:
        return AESGCM(key).decrypt(blob[:_BLOCK], blob[2 * _BLOCK :] + blob[_BLOCK : 2 * _BLOCK], None)
    except InvalidTag:
        return None


def _tag(key: bytes, start: bytes, sealed: bytes) -> bytes:
    parts = (start, _omac(key, 1, b""), _omac(key, 2, sealed))
    return bytes(a ^ b ^ c for a, b, c in zip(*parts, strict=True))


def _omac(key: bytes, number: int, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.cmac import CMAC

    mac = CMAC(AES(key))
    mac.update(number.to_bytes(_BLOCK, "big") + data)
    return mac.finalize()


def _ctr(key: bytes, start: bytes, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    stream = Cipher(AES(key), CTR(start)).encryptor()
    return stream.update(data) + stream.finalize()
