"""Directed sequences: each is a trap that an earlier design fell into, named by its situation, with the required outcome."""

from __future__ import annotations

import pytest

from goalfsm import events as ev
from goalfsm._core import ThreadCore
from goalfsm._errors import IllegalCommand, UnknownName
from goalfsm._kernel import Verdict
from goalfsm._machines import Goal, Turn


class Life:
    """One thread's core, told one event after the other; anything unexpected fails the test."""

    def __init__(self, core):
        self.core = core
        self.effects = ()

    def told(self, *events):
        """Tell the events; `effects` holds what the last of them caused, in order."""
        for event in events:
            step = self.core.handle(event)
            odd = [
                judged
                for judged in step.verdicts
                if judged.verdict in (Verdict.ANOMALY, Verdict.STALE, Verdict.REJECTED)
            ]
            assert not odd, f"{event}: {odd}"
            self.core = step.core
            self.effects = step.effects
        return self

    def refuses(self, event):
        before = self.core
        step = before.handle(event)
        assert step.rejected is not None, f"{event} was not rejected"
        assert step.core is before
        assert (step.effects, step.moves) == ((), ())
        with pytest.raises(IllegalCommand):
            step.raise_if_rejected()
        return self

    def row(self, name="a"):
        return self.core.row(name)

    def state(self, name="a"):
        return self.core.row(name).state

    @property
    def op(self):
        return self.core.operation

    @property
    def did(self):
        return [effect.name for effect in self.effects]

    def caused(self, name):
        return [effect for effect in self.effects if effect.name == name]

    @property
    def call(self):
        return self.core.operation.call


def idle(**core):
    return Life(ThreadCore(goal=Goal("none"), turn=Turn("idle"), epoch=1, recon=True, **core))


def starting():
    life = idle().told(ev.Start())
    life.told(ev.ClearOk(life.call))
    return life.told(ev.SetOk(life.call), ev.GoalActive("g1"))


def running():
    """Operation 1 runs turn t1 of goal g1."""
    return starting().told(ev.TurnStarted("t1"))


def in_gap():
    return running().told(ev.TurnCompleted("t1"))


def out(life=None, name="a", turn="t1"):
    """A message whose bytes are out to the running turn, first attempt."""
    life = life or running()
    life.told(ev.Submit(name), ev.Taken(name))
    return written(life, name, turn)


def written(life, name="a", turn="t1", attempt=1):
    life.told(ev.BeginWrite(name, attempt, life.core.epoch, life.core.gen))
    assert [(effect.id, effect.turn_id) for effect in life.caused("write_bytes")] == [(name, turn)]
    return life


def ordinary():
    """The queue head `a` was sent as its own turn t1, which runs; operation 1 is that turn."""
    life = written(idle().told(ev.Submit("a")), turn="")
    return life.told(ev.SendOk("a", 1, "t1"), ev.TurnStarted("t1"), ev.Echo("a", "i1", "t1"))


def stopped_quietly(life):
    """Stop, the pause is answered, the turn is interrupted and ends; the proof of quiet is awaited."""
    life.told(ev.Stop())
    life.told(ev.GoalPaused("g1"), ev.PauseOk(life.call))
    return life.told(ev.InterruptOk(life.call), ev.TurnInterrupted(life.core.turn.turn_id))


# -- settle once, look at the right time ---------------------------------------------------------------------------------------


def test_late_refusal_after_the_waiter_was_settled_uncertain_is_published_not_settled_again():  # trap 1
    life = out().told(ev.TurnCompleted("t1"), ev.AnswerLost("a", 1))
    assert (life.state(), life.did) == ("uncertain", ["settle", "read_back"])
    life.told(ev.SendRefused("a", 1))
    assert (life.state(), life.row().proof, life.did) == ("requeued", "refusal", ["publish"])


def test_provider_without_echo_carried_ack_is_looked_up_when_nobody_else_would():  # trap 2, and §9 A for a carried ack
    life = idle(echo=False).told(ev.Start())
    life.told(ev.ClearOk(life.call))
    life.told(ev.SetOk(life.call), ev.GoalActive("g1"), ev.TurnStarted("t1"))
    out(life).told(ev.SendOk("a", 1, "t1"), ev.GoalCompleted("g1"), ev.TurnCompleted("t1"))
    assert (life.op.state, life.state()) == ("completed", "acknowledged")
    life.told(ev.EchoLost("a", 1))
    assert (life.state(), life.did) == ("uncertain", ["settle", "read_back"])


def test_provider_without_echo_a_failed_turn_does_not_carry_its_ack():  # trap 3
    life = idle(echo=False).told(ev.Start())
    life.told(ev.ClearOk(life.call))
    life.told(ev.SetOk(life.call), ev.GoalActive("g1"), ev.TurnStarted("t1"))
    out(life).told(ev.SendOk("a", 1, "t1"), ev.TurnFailed("t1"))
    assert (life.state(), life.did) == ("uncertain", ["settle", "read_back"])
    assert life.told(ev.Watermark("a", 1)).state() == "uncertain"


def test_operation_does_not_end_by_a_turn_whose_end_was_missed_while_a_newer_one_runs():  # trap 4
    life = running().told(ev.GoalCompleted("g1"), ev.TurnStarted("t2"))
    assert life.op.state == "running"
    assert life.told(ev.TurnCompleted("t2")).op.state == "completed"


def test_end_of_a_turn_that_was_never_shown_as_started_frees_the_slot():  # trap 5
    life = running().told(ev.TurnCompleted("t2"))
    assert (life.core.turn.state, life.op.state) == ("idle", "gap")
    assert life.told(ev.GoalBlocked("g1")).op.state == "completed"


def test_late_answer_of_an_older_operation_does_not_touch_the_next_one():  # trap 6
    life = running().told(ev.Stop())
    first = life.call
    life.told(ev.OwnerChanged(2))
    assert life.op.state == "detached"
    life.told(ev.Stop())
    life.told(ev.PauseOk(life.call))
    assert life.op.state == "interrupting"
    assert life.told(ev.PauseOk(first)).op.state == "interrupting"
    assert life.did == []


def test_ok_read_after_its_turn_ended_without_echo_is_looked_up():  # trap 7
    life = out().told(ev.TurnInterrupted("t1"), ev.SendOk("a", 1, "t1"))
    assert (life.state(), life.did) == ("uncertain", ["settle", "read_back"])
    assert life.told(ev.Absent("a", 1, 0)).state() == "requeued"


def test_interrupt_that_names_an_older_turn_is_sent_again_exactly_once():  # trap 8
    life = running().told(ev.Stop())
    life.told(ev.GoalPaused("g1"), ev.PauseOk(life.call))
    assert [effect.turn_id for effect in life.caused("interrupt_turn")] == ["t1"]
    life.told(ev.InterruptOther(life.call, "t2"))
    assert [effect.turn_id for effect in life.caused("interrupt_turn")] == [""]
    life.told(ev.InterruptOk(life.call), ev.TurnInterrupted("t2"))
    assert "quiet_timer" in life.did


def test_inferred_end_of_a_turn_proves_no_absence_until_its_end_is_seen():  # trap 8b
    life = out().told(ev.SendOk("a", 1, "t1"), ev.TurnStarted("t2"))
    assert (life.state(), life.did) == ("uncertain", ["settle", "read_back"])
    assert life.told(ev.Absent("a", 1, 0)).state() == "uncertain"
    assert life.told(ev.TurnCompleted("t1")).did == ["read_back"]
    assert life.told(ev.Absent("a", 1, 0)).state() == "requeued"


# -- the write section ------------------------------------------------------------------------------------------------------------


def test_stop_after_the_grant_leaves_the_message_to_its_answer():  # trap 9
    life = out().told(ev.Stop())
    assert life.state() == "delivering"
    assert life.told(ev.Echo("a", "i1", "t1")).state() == "delivered"


def test_stop_before_the_grant_is_found_by_the_write_section_with_no_byte_out():  # trap 9
    life = running().told(ev.Submit("a"), ev.Taken("a"), ev.Stop())
    assert life.state() == "delivering"
    life.told(ev.BeginWrite("a", 1, 1, 0))
    assert (life.state(), life.row().proof, life.did) == ("requeued", "guard_false", ["settle"])


def test_absent_asked_while_the_turn_runs_is_not_believed():  # trap 10
    life = out().told(ev.AnswerLost("a", 1))
    assert (life.state(), life.did) == ("uncertain", ["settle"])
    assert life.told(ev.LookAgain("a")).did == ["read_back"]
    assert life.told(ev.Absent("a", 1, 0)).state() == "uncertain"
    life.told(ev.Echo("a", "i1", "t1"))
    assert (life.state(), life.did) == ("delivered", ["publish"])


def test_message_shown_just_before_a_crash_is_found_by_its_text():  # trap 11
    life = out().told(ev.Restarted(), ev.GoalPaused("g1"), ev.TurnNone(), ev.Found("a", "", "t1", "rollout"))
    assert (life.state(), life.row().evidence) == ("delivered", "item")


def test_restart_leaves_fenced_messages_uncertain_and_gives_unfenced_ones_back():  # trap 12
    assert out().told(ev.Restarted()).state() == "uncertain"
    assert running().told(ev.Submit("a"), ev.Taken("a")).told(ev.Restarted()).state() == "uncertain"
    assert in_gap().told(ev.Submit("a"), ev.Taken("a")).told(ev.Restarted()).state() == "requeued"
    assert running().told(ev.Submit("a")).told(ev.Restarted()).state() == "requeued"


def test_late_refusal_of_an_earlier_attempt_does_not_decide_the_next():  # trap 13
    life = out().told(ev.TurnCompleted("t1"), ev.AnswerLost("a", 1), ev.Absent("a", 1, 0), ev.TurnStarted("t2"))
    life.told(ev.SendNow("a"), ev.Taken("a"))
    written(life, turn="t2", attempt=2)
    assert life.told(ev.SendRefused("a", 1)).state() == "delivering"
    assert life.told(ev.Echo("a", "i1", "t2")).state() == "delivered"


def test_acknowledged_message_lost_by_an_interrupt_is_proven_absent():  # trap 14
    life = out().told(ev.SendOk("a", 1, "t1"), ev.TurnInterrupted("t1"))
    assert (life.state(), life.did[:2]) == ("uncertain", ["settle", "read_back"])
    assert life.told(ev.Absent("a", 1, 0)).state() == "requeued"


def test_true_owner_is_asked_in_the_write_section():  # trap 17
    life = running().told(ev.Submit("a"), ev.Taken("a"), ev.BeginWrite("a", 1, 2, 0))
    assert (life.state(), life.did) == ("requeued", ["settle"])


def test_true_transport_generation_is_asked_in_the_write_section():
    life = running().told(ev.Submit("a"), ev.Taken("a"), ev.BeginWrite("a", 1, 1, 1))
    assert (life.state(), life.did) == ("requeued", ["settle"])


def test_stop_between_fence_and_write_of_an_ordinary_turn():  # trap 18
    life = idle().told(ev.Submit("a"), ev.Stop(), ev.BeginWrite("a", 1, 1, 0))
    assert (life.state(), life.did) == ("requeued", ["settle"])


def test_goal_replaced_between_fence_and_write():  # trap 19
    life = running().told(ev.Submit("a"), ev.Taken("a"), ev.GoalActive("g2"), ev.BeginWrite("a", 1, 1, 0))
    assert (life.state(), life.did) == ("requeued", ["settle"])


def test_rollover_between_fence_and_write_does_not_rebind_by_itself():  # trap 20
    life = running().told(ev.Submit("a"), ev.Taken("a"), ev.TurnCompleted("t1"), ev.TurnStarted("t2"))
    assert (life.state(), life.row().turn_id) == ("delivering", "t1")
    assert life.told(ev.BeginWrite("a", 1, 1, 0)).state() == "requeued"
    assert life.told(ev.TurnCompleted("t2"), ev.TurnStarted("t3")).state() == "requeued"


def test_refusal_that_only_names_a_newer_turn_retries_there_once():  # trap 20, surface 22
    life = out().told(ev.SendMoved("a", 1, "t2"))
    assert (life.state(), life.row().turn_id, life.row().attempt, life.did) == (
        "delivering",
        "t2",
        2,
        ["write_fence", "request_write"],
    )
    written(life, turn="t2", attempt=2)
    life.told(ev.SendMoved("a", 2, "t3"))
    assert (life.state(), life.did) == ("requeued", ["settle"])


def test_refused_turn_that_still_looks_running_is_never_bound_again():
    life = out().told(ev.SendMoved("a", 1))
    assert (life.state(), life.row().avoid) == ("accepted", "t1")
    assert life.told(ev.TurnStarted("t1")).state() == "accepted"
    assert life.told(ev.TurnCompleted("t1"), ev.TurnStarted("t2")).row().turn_id == "t2"


def test_repeated_start_and_late_end_of_an_old_turn_do_not_move_the_slot():  # trap 21
    life = in_gap().told(ev.TurnStarted("t2"))
    out(life, turn="t2").told(ev.SendOk("a", 1, "t2"), ev.TurnStarted("t1"), ev.TurnCompleted("t1"))
    assert (life.core.turn.turn_id, life.core.turn.state, life.state()) == ("t2", "running", "acknowledged")


def test_withdraw_after_the_write_is_a_wish_that_proof_decides():  # trap 22
    taken = out().told(ev.Withdraw("a"))
    assert taken.state() == "delivering"
    assert taken.told(ev.Echo("a", "i1", "t1")).state() == "delivered"
    lost = out().told(ev.Withdraw("a"), ev.TurnCompleted("t1"), ev.AnswerLost("a", 1), ev.Absent("a", 1, 0))
    assert lost.state() == "discarded"


def test_queue_waits_for_reconcile_of_this_generation():  # trap 23
    life = idle().told(ev.Restarted(), ev.GoalCleared(), ev.TurnNone(), ev.Submit("a"))
    assert life.state() == "queued"
    assert life.told(ev.Reconciled(0)).state() == "queued"
    assert life.told(ev.Reconciled(1)).state() == "delivering"


def test_write_request_repeated_or_outliving_its_attempt_gets_no_second_permission():
    life = out().told(ev.BeginWrite("a", 1, 1, 0))
    assert (life.state(), life.did) == ("delivering", [])
    life.told(ev.SendRefused("a", 1), ev.BeginWrite("a", 1, 1, 0))
    assert (life.state(), life.did) == ("requeued", [])


def test_fence_that_could_not_be_written_leaves_no_permission_behind():
    life = running().told(ev.Submit("a"), ev.Taken("a"), ev.FenceFailed("a", 1))
    assert (life.state(), life.row().proof, life.did) == ("requeued", "no_fence", ["settle"])
    assert life.told(ev.BeginWrite("a", 1, 1, 0)).did == []


# -- stop ----------------------------------------------------------------------------------------------------------------------------


def test_stop_while_the_goal_is_being_set_pauses_after_the_answer():  # trap 15
    life = idle().told(ev.Start())
    life.told(ev.ClearOk(life.call), ev.Stop())
    assert (life.op.state, life.did) == ("setting", [])
    life.told(ev.SetOk(life.call))
    assert (life.op.state, life.did) == ("stopping", ["pause_goal"])


def test_no_active_turn_is_not_the_end_one_more_may_begin():  # trap 16
    life = in_gap().told(ev.Stop())
    life.told(ev.GoalPaused("g1"), ev.PauseOk(life.call))
    life.told(ev.InterruptNone(life.call))
    assert (life.op.state, life.did) == ("interrupting", ["quiet_timer"])
    early = life.call
    life.told(ev.TurnStarted("t2"))
    assert life.did == ["interrupt_turn"]
    assert life.told(ev.Quiet(early)).op.state == "interrupting"
    life.told(ev.InterruptOk(life.call), ev.TurnInterrupted("t2"), ev.Quiet(life.call))
    assert (life.op.state, life.core.turn.state) == ("interrupted", "idle")


def test_interrupt_waits_for_the_pause_or_for_its_last_try():  # trap 24
    life = running().told(ev.Stop())
    assert life.did == ["pause_goal"]
    assert life.told(ev.CallLost(life.call)).did == ["pause_goal"]
    assert life.told(ev.CallLost(life.call)).did == ["quarantine", "reconcile", "interrupt_turn"]
    assert life.core.recon is False


def test_interrupt_by_another_client_counts_as_a_stop():  # trap 25
    life = running().told(ev.Submit("b", "queue"), ev.TurnInterrupted("t1"))
    assert (life.op.state, life.did, life.state("b")) == ("stopping", ["pause_goal"], "held")


def test_goal_set_while_an_ordinary_turn_is_stopped_is_paused_too():  # §8 trap 1
    life = ordinary().told(ev.Stop())
    life.told(ev.CallRefused(life.call))
    life.told(ev.InterruptOk(life.call), ev.TurnInterrupted("t1"), ev.GoalActive("g1"), ev.Quiet(life.call))
    assert (life.op.state, life.did[-1]) == ("stopping", "pause_goal")
    life.told(ev.GoalPaused("g1"), ev.PauseOk(life.call))
    life.told(ev.InterruptOk(life.call), ev.Quiet(life.call))
    assert life.op.state == "interrupted"


def test_stop_while_turn_start_is_in_flight_stops_the_turn_that_comes():  # §8 trap 2
    life = written(idle().told(ev.Submit("a")), turn="").told(ev.Stop())
    life.told(ev.SendOk("a", 1, "t1"))
    assert (life.op.state, life.op.logical, life.did[-1]) == ("stopping", "t1", "pause_goal")


def test_message_without_goal_in_a_retained_gap_captures_it_and_comes_back_when_it_is_paused():  # §8 trap 3
    life = ordinary()
    out(life, "b").told(ev.GoalActive("g1"), ev.SendMoved("b", 1))
    assert (life.state("b"), life.row("b").ref) == ("accepted", "g1")
    life.told(ev.TurnCompleted("t1"))
    assert life.op.state == "gap"
    life.told(ev.GoalPaused("g1"))
    assert (life.state("b"), life.op.state) == ("requeued", "completed")


@pytest.mark.parametrize("end", [ev.Withdraw("a"), ev.Expire("a")])
def test_waiter_of_a_message_that_went_back_to_the_queue_is_settled_there(end):  # §8 trap 4
    life = in_gap().told(ev.Submit("b", "queue"), ev.Submit("a"), ev.SendNow("a"), ev.GoalCompleted("g1"))
    assert (life.state("b"), life.state("a")) == ("delivering", "queued")
    life.told(end)
    assert life.did == ["settle"]


def _fields(core):
    return {name: getattr(core, name) for name in core.__struct_fields__}


def test_goal_is_refused_while_our_ordinary_turn_runs():  # §8 trap 5
    ordinary().refuses(ev.Start())


def test_acknowledged_message_of_a_hung_turn_is_let_go_when_its_operation_ended():  # §9 A
    life = out().told(ev.SendOk("a", 1, "t1"), ev.Silence())
    life.told(ev.GoalPaused("g1"), ev.PauseOk(life.call))
    life.told(ev.InterruptOk(life.call), ev.Silence())
    assert (life.op.state, life.state()) == ("interrupted", "acknowledged")
    life.told(ev.EchoLost("a", 1))
    assert (life.state(), life.did) == ("uncertain", ["settle"])
    assert life.told(ev.TurnInterrupted("t1")).did == ["read_back"]


def test_turn_that_refuses_everything_does_not_drain_the_queue():  # §9 B, decisions 14
    life = out().told(ev.Submit("b"), ev.SendRefused("a", 1))
    assert (life.state("a"), life.state("b")) == ("requeued", "queued")
    assert life.told(ev.TurnCompleted("t1")).state("b") == "queued"
    life.told(ev.TurnStarted("t2"))
    assert (life.state("b"), life.did) == ("admitted", ["hand_over"])


def test_late_news_of_a_settled_admission_does_not_close_the_lane_again():
    life = out().told(ev.Submit("b", "queue"), ev.SendRefused("a", 1), ev.TurnCompleted("t1"), ev.TurnStarted("t2"))
    life.told(ev.SendRefused("a", 1), ev.HandOverTimeout("a"), ev.Withdraw("b"), ev.Submit("c"))
    assert life.state("c") == "admitted"


def test_hand_over_that_is_not_taken_closes_the_lane_until_the_next_turn():
    life = running().told(ev.Submit("a"), ev.Submit("b"), ev.HandOverTimeout("a"))
    assert (life.state("a"), life.state("b")) == ("requeued", "queued")
    assert life.told(ev.TurnCompleted("t1"), ev.TurnStarted("t2")).state("b") == "admitted"


def test_steer_only_message_behind_a_busy_lane_does_not_become_its_own_turn():  # §9 C
    life = out().told(ev.Submit("b", "steer"), ev.Echo("a", "i1", "t1"))
    assert life.state("b") == "admitted"
    life = out().told(ev.Submit("b", "steer"), ev.GoalCompleted("g1"))
    assert life.state("b") == "queued"
    life.told(ev.TurnCompleted("t1"))
    assert (life.state("b"), life.row("b").proof, life.caused("settle")[0].id) == ("requeued", "unsent", "b")


def test_second_item_of_one_message_raises_the_alarm_and_a_nameless_one_does_not():  # §9 D, decisions 2
    life = out().told(ev.Echo("a", "i1", "t1"))
    assert life.told(ev.Echo("a", "i1", "t1"), ev.Found("a", "", "t1")).did == []
    life.told(ev.Found("a", "i2", "t1"))
    assert [(effect.kind, effect.item) for effect in life.caused("alarm")] == [("doubled", "i2")]
    assert life.state() == "delivered"


def test_message_given_back_by_a_completed_goal_is_handed_to_the_turn_that_still_talks():  # §9 E
    life = running().told(ev.Submit("a"), ev.GoalCompleted("g1"))
    assert (life.state(), life.row().ref, life.did) == ("admitted", "", ["hand_over"])


def test_further_interrupts_of_one_stop_name_no_turn():  # §9 F, decisions 9
    life = running().told(ev.Stop())
    life.told(ev.GoalPaused("g1"), ev.PauseOk(life.call))
    life.told(ev.CallLost(life.call))
    assert [effect.turn_id for effect in life.caused("interrupt_turn")] == [""]


def test_interrupt_refused_for_an_unknown_reason_tells_the_caller_and_ends_with_the_turn():
    life = running().told(ev.Stop())
    life.told(ev.GoalPaused("g1"), ev.PauseOk(life.call))
    life.told(ev.InterruptRefused(life.call, -32600, "no"))
    assert (life.op.state, life.did) == ("interrupting", ["publish_refusal"])
    life.told(ev.TurnCompleted("t1"), ev.Quiet(life.call))
    assert life.op.state == "interrupted"


def test_stop_on_a_thread_whose_turn_nobody_owns_interrupts_it_and_holds_the_queue():
    life = idle().told(ev.TurnStarted("t1"), ev.Submit("a"), ev.Stop())
    assert (life.state(), life.did) == ("held", ["interrupt_bare"])


def test_stop_of_an_active_goal_without_operation_adopts_it_first():
    life = idle().told(ev.GoalActive("g1"), ev.Stop())
    assert (life.op.state, life.did) == ("stopping", ["reserve_route", "pause_goal"])


def test_second_stop_joins_the_first_and_holds_what_was_submitted_between_them():
    life = running().told(ev.Stop(), ev.Submit("b"))
    assert life.state("b") == "queued"
    life.told(ev.Stop())
    assert (life.op.state, life.did, life.state("b")) == ("stopping", [], "held")


# -- the queue (surface 17-25) ------------------------------------------------------------------------------------------------------------


def test_steer_only_message_with_nothing_running_comes_back():
    life = idle().told(ev.Submit("a", "steer"))
    assert (life.state(), life.row().proof, life.did) == ("requeued", "unsent", ["settle"])


def test_steer_only_message_waits_for_a_goal_that_is_being_started():
    life = idle().told(ev.Start(), ev.Submit("a", "steer"))
    assert life.state() == "queued"
    life.told(ev.ClearOk(life.call))
    life.told(ev.SetOk(life.call), ev.GoalActive("g1"), ev.TurnStarted("t1"))
    assert life.state() == "admitted"


def test_submit_in_the_gap_waits_and_binds_the_next_turn_once():
    life = in_gap().told(ev.Submit("a"), ev.Taken("a"))
    assert (life.state(), life.did) == ("accepted", [])
    life.told(ev.TurnStarted("t2"))
    assert (life.state(), life.row().turn_id, life.did) == ("delivering", "t2", ["write_fence", "request_write"])


def test_stop_in_the_gap_gives_the_message_back_without_a_byte():
    life = in_gap().told(ev.Submit("a"), ev.Taken("a"), ev.Stop())
    assert (life.state(), life.row().proof, life.did) == ("requeued", "unsent", ["pause_goal", "settle"])


def test_completed_goal_gives_the_waiting_message_back_to_the_queue_and_it_starts_its_own_turn():
    life = in_gap().told(ev.Submit("a"), ev.Taken("a"), ev.GoalCompleted("g1"))
    assert (life.op.state, life.state(), life.row().route) == ("completed", "delivering", "start")
    assert "settle" not in life.did


def test_completed_goal_under_the_hold_policy_gives_it_back_to_the_person():
    life = in_gap()
    life.core = ThreadCore(**{**_fields(life.core), "queue_after_goal": False})
    life.told(ev.Submit("a"), ev.Taken("a"), ev.GoalCompleted("g1"))
    assert (life.state(), life.caused("settle")[0].state) == ("requeued", "requeued")


@pytest.mark.parametrize(
    "end",
    [
        ev.GoalPaused("g1"),
        ev.GoalBlocked("g1"),
        ev.GoalUsageLimited("g1"),
        ev.GoalBudgetLimited("g1"),
        ev.GoalCleared(),
    ],
)
def test_goal_that_ends_in_any_other_way_requeues_the_waiting_message(end):
    life = in_gap().told(ev.Submit("a"), ev.Taken("a"), end)
    assert (life.state(), life.op.state) == ("requeued", "completed")


def test_lane_goes_on_by_itself_in_order():
    life = out().told(ev.Submit("b"), ev.Submit("c"), ev.SendOk("a", 1, "t1"))
    assert (life.state("b"), life.state("c")) == ("queued", "queued")
    life.told(ev.Echo("a", "i1", "t1"))
    assert (life.state("b"), life.state("c")) == ("admitted", "queued")


def test_message_for_its_own_turn_holds_back_those_behind_it():
    life = running().told(ev.Submit("a", "queue"), ev.Submit("b"))
    assert (life.state("a"), life.state("b")) == ("queued", "queued")
    life.told(ev.GoalCompleted("g1"), ev.TurnCompleted("t1"))
    assert (life.state("a"), life.state("b")) == ("delivering", "queued")


@pytest.mark.parametrize("start", [running, idle])
def test_held_and_requeued_messages_block_nobody(start):
    life = (
        start().told(ev.Submit("x", "queue"), ev.Stop()) if start is running else idle().told(ev.Submit("r", "steer"))
    )
    if start is running:
        life.told(ev.GoalPaused("g1"), ev.PauseOk(life.call))
        life.told(ev.InterruptOk(life.call), ev.TurnInterrupted("t1"), ev.Quiet(life.call))
    assert life.core.rows[0].state in ("held", "requeued")
    assert life.told(ev.Submit("a", "queue")).state() == "delivering"


def test_uncertain_message_blocks_neither_the_lane_nor_its_own_turns():
    life = out().told(ev.AnswerLost("a", 1), ev.Submit("b"))
    assert (life.state("a"), life.state("b")) == ("uncertain", "admitted")
    life = out().told(ev.AnswerLost("a", 1), ev.Submit("b", "queue"), ev.GoalCompleted("g1"), ev.TurnCompleted("t1"))
    assert (life.state("a"), life.state("b")) == ("uncertain", "delivering")


def test_release_and_move_decide_the_order():
    life = running().told(ev.Submit("a", "queue"), ev.Submit("b", "queue"), ev.Move("b", 0))
    assert [row.id for row in life.core.waiting()] == ["b", "a"]
    life.told(ev.GoalCompleted("g1"), ev.TurnCompleted("t1"))
    assert (life.state("b"), life.state("a")) == ("delivering", "queued")


def test_hold_by_a_person_keeps_its_reason_until_release():
    life = running().told(ev.Submit("a", "queue"), ev.Hold("a", "after lunch"))
    assert (life.state(), life.row().reason) == ("held", "after lunch")
    assert (life.told(ev.Release("a")).state(), life.row().reason) == ("queued", "")


def test_resend_is_one_step_and_one_more_write():
    life = out().told(ev.TurnCompleted("t1"), ev.AnswerLost("a", 1), ev.TurnStarted("t2"), ev.Resend("a"))
    assert life.state() == "admitted"
    written(life.told(ev.Taken("a")), turn="t2", attempt=2)
    life.told(ev.Echo("a", "i1", "t1"), ev.Echo("a", "i2", "t2"))
    assert (life.state(), [effect.kind for effect in life.caused("alarm")]) == ("delivered", ["doubled"])


@pytest.mark.parametrize(
    "command",
    [ev.Edit("a"), ev.Release("a"), ev.Hold("a"), ev.Move("a", 0), ev.ResolveSent("a"), ev.Resend("a"), ev.Submit("a")],
)
def test_commands_out_of_season_change_nothing_while_a_message_is_out(command):
    out().refuses(command)


def test_commands_for_an_unknown_message_change_nothing():
    running().refuses(ev.Withdraw("nobody")).refuses(ev.SendNow("nobody"))


def test_send_now_without_a_live_operation_is_refused():
    life = idle().told(ev.TurnStarted("t1"), ev.Submit("a"))
    life.refuses(ev.SendNow("a"))


def test_internal_and_unknown_events_cannot_be_told_from_outside():
    with pytest.raises(UnknownName):
        running().told(ev.Stopped())


# -- goal, adoption, transport ------------------------------------------------------------------------------------------------------------------


def test_message_waits_while_the_goals_status_cannot_be_read_and_goes_on_with_it():
    life = in_gap().told(ev.Submit("a"), ev.GoalUnrecognised("g1", "sleeping"), ev.Taken("a"))
    assert (life.state(), life.op.state) == ("accepted", "gap")
    life.told(ev.GoalActive("g1"), ev.TurnStarted("t2"))
    assert (life.state(), life.row().turn_id) == ("delivering", "t2")


def test_message_does_not_wait_for_a_goal_that_was_replaced_unseen():
    life = in_gap().told(ev.Submit("a"), ev.Taken("a"), ev.GoalUnrecognised("g1", "sleeping"), ev.GoalActive("g2"))
    assert (life.state(), life.did[-1]) == ("requeued", "settle")


def test_there_is_nothing_to_adopt_on_an_idle_thread_without_a_goal():
    idle().refuses(ev.Adopt())


def test_goal_adopted_between_turns_takes_the_next_turns_id_as_its_own():
    life = idle().told(ev.GoalActive("g1"), ev.Adopt())
    assert (life.op.state, life.did) == ("gap", ["reserve_route"])
    life.told(ev.TurnStarted("t7"))
    assert (life.op.logical, life.did) == ("t7", ["publish_started"])


def test_ordinary_turn_is_retained_under_the_same_id_when_a_goal_appears():
    life = ordinary().told(ev.GoalActive("g1"), ev.TurnCompleted("t1"), ev.TurnStarted("t2"))
    assert (life.op.id, life.op.state, life.op.logical, life.did) == (1, "running", "t1", [])


def test_failed_turn_is_not_forgotten_because_later_ones_passed():
    life = running().told(ev.TurnFailed("t1"), ev.TurnStarted("t2"), ev.GoalCompleted("g1"), ev.TurnCompleted("t2"))
    assert life.op.state == "failed"


def test_lost_transport_wakes_everybody_and_nothing_is_trusted():
    life = out().told(ev.Submit("b", "queue"), ev.TransportLost())
    assert (life.op.state, life.state("a"), life.state("b")) == ("lost", "uncertain", "queued")
    assert (life.core.goal.state, life.core.turn.state, life.core.recon, life.core.gen) == (
        "unknown",
        "unknown",
        False,
        1,
    )
    assert {"publish_completed", "release_route", "reconcile", "settle"} <= set(life.did)
    life.told(ev.GoalPaused("g1"), ev.TurnNone(), ev.Absent("a", 1, 1), ev.Reconciled(1))
    assert (life.state("a"), life.state("b")) == ("requeued", "delivering")


def test_old_side_lets_go_when_another_owner_comes():
    life = out().told(ev.OwnerChanged(2))
    assert (life.op.state, life.state(), sorted(life.did)) == ("detached", "uncertain", ["release_route", "settle"])
    assert life.told(ev.Echo("a", "i1", "t1")).state() == "delivered"


def test_quiet_stop_ends_the_operation_and_frees_the_thread():
    life = stopped_quietly(running())
    life.told(ev.Quiet(life.call))
    assert (life.op.state, life.did) == ("interrupted", ["publish_completed", "release_route"])


# -- every way in which an operation begins and ends ----------------------------------------------------------------------


def reserved():
    return idle().told(ev.Start())


def setting():
    life = reserved()
    return life.told(ev.ClearOk(life.call))


def failing():
    return running().told(ev.TurnFailed("t1"))


def hung(*, had_failed=False):
    """A stop whose interrupt is out."""
    life = running().told(ev.Silence() if had_failed else ev.Stop())
    return life.told(ev.GoalPaused("g1"), ev.PauseOk(life.call))


def lost_twice(life):
    return life.told(ev.CallLost(life.call))


ENDED = ["publish_completed", "release_route"]
UNCONFIRMED = ["quarantine", "reconcile", *ENDED]
WAYS = {
    "busy thread": (lambda: idle().told(ev.TurnStarted("t1")), lambda _: ev.Start(), "refused", ["reject_start"]),
    "route first, then the old goal is cleared": (idle, lambda _: ev.Start(), "reserved", ["reserve_route", "clear_goal"]),
    "goals are disabled": (reserved, lambda op: ev.CallRefused(op.call), "refused", ["reject_start", "release_route"]),
    "clear was not answered": (reserved, lambda op: ev.CallLost(op.call), "failed", ENDED),
    "stopped before anything was set": (reserved, lambda _: ev.Stop(), "interrupted", ENDED),
    "goal was refused": (setting, lambda op: ev.CallRefused(op.call), "refused", ["reject_start", "release_route"]),
    "goal may have been set": (setting, lambda op: ev.CallLost(op.call), "stopping", ["pause_goal"]),
    "turn news overtook the answer": (
        lambda: setting().told(ev.TurnStarted("t1")), lambda op: ev.SetOk(op.call), "running", ["publish_started"],
    ),
    "goal is set": (setting, lambda op: ev.SetOk(op.call), "starting", ["start_timer"]),
    "first turn": (starting, lambda _: ev.TurnStarted("t1"), "running", ["publish_started"]),
    "no first turn": (starting, lambda op: ev.StartTimeout(op.call), "stopping", ["pause_goal"]),
    "paused before the first turn": (starting, lambda _: ev.GoalPaused("g1"), "completed", ENDED),
    "adopted in mid turn": (
        lambda: idle().told(ev.TurnStarted("t1")), lambda _: ev.Adopt(), "running", ["reserve_route", "publish_started"],
    ),
    "goal completed, then its turn": (
        lambda: running().told(ev.GoalCompleted("g1")), lambda _: ev.TurnCompleted("t1"), "completed", ENDED,
    ),
    "goal completed in the gap": (in_gap, lambda _: ev.GoalCompleted("g1"), "completed", ENDED),
    "goal blocked, then its turn failed": (
        lambda: running().told(ev.GoalBlocked("g1")), lambda _: ev.TurnFailed("t1"), "failed", ENDED,
    ),
    "turn failed, then its goal blocked": (failing, lambda _: ev.GoalBlocked("g1"), "failed", ENDED),
    "turn failed, a later one passed": (
        lambda: failing().told(ev.TurnStarted("t2"), ev.GoalCompleted("g1")), lambda _: ev.TurnCompleted("t2"), "failed", ENDED,
    ),
    "someone paused and interrupted": (
        lambda: running().told(ev.GoalPaused("g1")), lambda _: ev.TurnInterrupted("t1"), "interrupted", ENDED,
    ),
    "silence": (running, lambda _: ev.Silence(), "stopping", ["pause_goal"]),
    "silence, stopped, quiet": (
        lambda: hung(had_failed=True).told(ev.TurnInterrupted("t1")), lambda op: ev.Quiet(op.call), "failed", ENDED,
    ),
    "interrupt not answered twice": (lambda: lost_twice(hung()), lambda op: ev.CallLost(op.call), "interrupted", UNCONFIRMED),
    "interrupt not answered twice after silence": (
        lambda: lost_twice(hung(had_failed=True)), lambda op: ev.CallLost(op.call), "failed", UNCONFIRMED,
    ),
    "turn does not end after its interrupt": (hung, lambda _: ev.Silence(), "interrupted", UNCONFIRMED),
    "interrupt refused and nothing runs": (
        lambda: hung().told(ev.TurnCompleted("t1")), lambda op: ev.InterruptRefused(op.call, -32600, "no"), "interrupting",
        ["publish_refusal", "quiet_timer"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "event", "state", "did"), WAYS.values(), ids=WAYS.keys())
def test_operation_begins_and_ends_with_exactly_these_effects(before, event, state, did):
    life = before()
    life.told(event(life.op))
    assert (life.op.state, life.did) == (state, did)


@pytest.mark.parametrize(
    ("before", "event"),
    [
        (running, lambda _: ev.Silence()),
        (running, lambda _: ev.TurnInterrupted("t1")),
        (lambda: running().told(ev.GoalPaused("g1")), lambda _: ev.TurnInterrupted("t1")),
        (reserved, lambda _: ev.Stop()),
        (setting, lambda _: ev.Stop()),
        (setting, lambda op: ev.CallLost(op.call)),
        (starting, lambda op: ev.StartTimeout(op.call)),
    ],
)
def test_whatever_stops_an_operation_counts_as_a_stop_and_holds_the_queue(before, event):
    life = before()
    life.told(ev.Submit("q", "queue"), event(life.op))
    assert (life.state("q"), life.row("q").reason, life.core.stops) == ("held", "stopped", 1)


def test_ordinary_turn_that_ends_well_gives_the_next_message_its_own_turn():
    life = ordinary().told(ev.Submit("b"), ev.TurnCompleted("t1"))
    assert (life.op.state, life.state("b"), life.row("b").route) == ("completed", "delivering", "start")


def test_ordinary_turn_that_fails_gives_the_next_message_back():
    life = ordinary().told(ev.Submit("b"), ev.TurnFailed("t1"))
    assert (life.op.state, life.state("b")) == ("failed", "requeued")
