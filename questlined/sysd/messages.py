"""The main events of the log and their MESSAGE_IDs, by which `journalctl MESSAGE_ID=...` finds all of a kind.

A record names its event by `extra={"fields": {"QUESTLINE_EVENT": ...}}`. An id is never changed and never used again.
"""

from __future__ import annotations

from typing import Final

MESSAGE_IDS: Final = {
    "daemon_started": "e3363fd19cef4bc3b7a0983c8a17b744",
    "daemon_stopping": "ee0fcf4d20f7499d87f9559f433fa8af",
    "program_replaced": "3728aa6bebae45c5aee08d40ee45a628",
    "program_kept": "1952b19573654d9891ac3ea76edf0513",
    "config_reloaded": "77281c64940b4efaaba0bfe231951976",
    "config_refused": "dd57fc647d6443f1b74a9cf68f085294",
    "claims_paused": "293dd4d00c6740e1a24100084c521a1a",
    "claims_resumed": "c0d9a0e5e60e4b78bce08ac8f9db17b7",
    "store_refused": "3ea5476a0aef47c6997512f662881cb2",
    "store_back": "a675a643e293436c8cbb94978674daa6",
    "watchdog_late": "1e0dcab5b8534e719c383e143a062b6e",
    "attempts_recovered": "eff651a5a7e347c48d304c1a447a25b2",
    # A quest's own, in the words of `qlctl events`.
    "claimed": "51e762164a184cf9b7dc99458f8e0967",
    "adopted": "c45249ed1bca4aa8ac5e73cc412edd43",
    "completed": "c36583f0219440f49951d70038fc97a5",
    "retry_scheduled": "50cfe97d882e45438df78caec31f6fe4",
    "failed": "cd84d47df350435ea8613c31f01ab8ce",
    "blocked": "9a60ff97d08f4a70823e38378b481713",
    "interrupted": "073698dd539d4b46b46c40d2ee919a91",
    "recovered": "3b65bb74fc734d0f9bb5b959f4c8e120",
    "released": "43e199abf28c45a6b509fd1235672b46",
    "parked": "620b3eb2a8c64769b78888bc3f46f93e",
    "cancel_requested": "1fc912e9b7584191b8882b6fdd317e91",
    "cancelled": "f8a504d0c80a465d8d1e92be273e5467",
    "lease_expired": "6f872fccaf84404a9418b8d7eb4d6407",
    "requeued": "28891bd1316c4387b232a51e0d2c80eb",
    "dependency_failed": "17786855fb11414c99fb6d4d02cec314",
    "dependency_requeued": "8d530b523cc542d1a48c8699ad18346a",
}
