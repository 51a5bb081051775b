"""Words of the codex app-server protocol: the notifications it is known to send, and how its requests are answered.

The lists are those of the server's own generated schema (0.163.0). A notification that is not here is passed on to
readers all the same; only the count of unknown words tells a person that the server has moved on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["KNOWN_NOTIFICATIONS", "KNOWN_REQUESTS", "approval_answer"]

KNOWN_NOTIFICATIONS = frozenset(
    """
    account/gatewayOAuth/changed account/login/completed account/rateLimits/updated account/updated app/list/updated
    autoApprovalReview/strictReviewRequired command/exec/outputDelta configWarning deprecationNotice error
    externalAgentConfig/import/completed externalAgentConfig/import/progress fs/changed
    fuzzyFileSearch/sessionCompleted fuzzyFileSearch/sessionUpdated guardianWarning hook/completed hook/started
    item/agentMessage/delta item/autoApprovalReview/completed item/autoApprovalReview/started
    item/commandExecution/outputDelta item/commandExecution/terminalInteraction item/completed
    item/fileChange/outputDelta item/fileChange/patchUpdated item/mcpToolCall/progress item/plan/delta
    item/reasoning/summaryPartAdded item/reasoning/summaryTextDelta item/reasoning/textDelta item/started
    mcpServer/event/stream/notification mcpServer/oauthLogin/completed mcpServer/startupStatus/updated model/rerouted
    model/safetyBuffering/updated model/verification modelProvider/authRecoveryCompleted
    modelProvider/authRecoveryStarted process/exited process/outputDelta project/changed remoteControl/status/changed
    serverRequest/resolved skills/changed thread/archived thread/attachment/updated thread/closed thread/compacted
    thread/deleted thread/environment/connected thread/environment/disconnected thread/goal/cleared
    thread/goal/updated thread/name/updated thread/prediction/updated thread/project/updated thread/queue/changed
    thread/readState/changed thread/realtime/closed thread/realtime/error thread/realtime/item/completed
    thread/realtime/item/started thread/realtime/item/transcript/delta thread/realtime/itemAdded
    thread/realtime/outputAudio/delta thread/realtime/sdp thread/realtime/started thread/realtime/transcript/delta
    thread/realtime/transcript/done thread/reverted thread/settings/updated thread/started thread/status/changed
    thread/tokenUsage/updated thread/unarchived turn/completed turn/diff/updated turn/moderationMetadata
    turn/plan/updated turn/started warning windows/worldWritableWarning windowsSandbox/setupCompleted
    """.split()  # noqa: SIM905  a word list is read as words
)

KNOWN_REQUESTS = frozenset(
    """
    account/chatgptAuthTokens/refresh applyPatchApproval attestation/generate currentTime/read execCommandApproval
    item/commandExecution/requestApproval item/fileChange/requestApproval item/permissions/requestApproval
    item/tool/call item/tool/requestUserInput mcpServer/elicitation/request
    """.split()  # noqa: SIM905  a word list is read as words
)

_DECLINED = "declined by the client's policy"
_DECLINE: dict[str, Mapping[str, Any]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "execCommandApproval": {"decision": {"denied": {"rejection": _DECLINED}}},
    "applyPatchApproval": {"decision": {"denied": {"rejection": _DECLINED}}},
    "item/permissions/requestApproval": {"permissions": {}},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
    "item/tool/call": {"contentItems": [{"type": "inputText", "text": _DECLINED}], "success": False},
}
_APPROVE: dict[str, Mapping[str, Any]] = {
    "item/commandExecution/requestApproval": {"decision": "accept"},
    "item/fileChange/requestApproval": {"decision": "accept"},
    "execCommandApproval": {"decision": "approved"},
    "applyPatchApproval": {"decision": "approved"},
    "mcpServer/elicitation/request": {"action": "accept", "content": {}},
}


def approval_answer(method: str, params: Mapping[str, Any], decision: str) -> Mapping[str, Any] | None:
    """Give the wire answer to a request of the server, for the plain words `decline` and `approve` (surface 29).

    None where that word cannot answer that request (a current time cannot be approved): only a host callback that
    gives the whole answer can.
    """
    if decision != "approve":
        return _DECLINE.get(method)
    if method == "item/permissions/requestApproval":
        return {"permissions": params.get("permissions") or {}}
    return _APPROVE.get(method)
