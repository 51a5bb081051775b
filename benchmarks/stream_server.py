"""A child that plays recorded traffic: `python stream_server.py PLAN PACE`. It imports the standard library only.

It answers requests with recorded results; once a goal is set it writes all the notifications, as fast as the pipe takes
them or one every PACE milliseconds.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

REFUSED = {"code": -32601, "message": "unknown variant"}


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    pace = float(sys.argv[2]) / 1000
    lock = threading.Lock()

    def say(data: bytes) -> None:
        with lock:
            while data:
                data = data[os.write(1, data) :]

    def play() -> None:
        lines = [line.encode() + b"\n" for line in plan["lines"]]
        if not pace:
            say(b"".join(lines))
            return
        for line in lines:
            say(line)
            time.sleep(pace)

    for raw in sys.stdin:
        request = json.loads(raw)
        if "id" not in request or "method" not in request:
            continue
        method = request["method"]
        result = plan["answers"].get(method)
        body = {"error": REFUSED} if result is None else {"result": result}
        say(json.dumps({"id": request["id"], **body}).encode() + b"\n")
        if method == "thread/goal/set" and request["params"].get("status") == "active":
            threading.Thread(target=play, daemon=True).start()


if __name__ == "__main__":
    main()
