// SPDX-License-Identifier: Apache-2.0
#include "exports/record_log.h"

#include <gtest/gtest.h>

namespace forestall::exports {
namespace {

Candidate candidate(const char* name, std::optional<Bytes> usage, bool exceeds, int priority) {
  Candidate made;
  made.sample.workload.name = name;
  made.sample.workload.path = std::string("/") + name;
  made.sample.usage = usage;
  made.sample.inactive_file = Bytes{0};
  made.key.exceeds_request = exceeds;
  made.key.priority = priority;
  return made;
}

Record kill_record() {
  Record record;
  record.sequence = 7;
  record.observation.wake.source = WakeSource::usage_timer;
  record.decision.action = Action::kill;
  record.decision.reason = Reason::threshold_met;
  Evidence evidence;
  evidence.threshold.signal = Signal::memory_available;
  evidence.subject = "node";
  evidence.available = mib(90).count;
  evidence.limit = binary(mib(100).count);
  evidence.capacity = gib(1).count;
  evidence.met = true;
  record.decision.evidence = {evidence};
  record.decision.driving = 0;
  record.decision.considered = {candidate("leak", mib(300), true, 0),
                                candidate("web", std::nullopt, false, 5)};
  record.decision.considered[1].exclusion = Exclusion::is_protected;
  Eviction eviction;
  eviction.at_once = true;
  eviction.message = "The node was low on resource: memory. ";
  record.decision.evictions = {eviction};
  return record;
}

TEST(RecordLog, ADecisionNamesTheNumbersComparedAndTheRunnersUp) {
  EXPECT_EQ(decision_line(kill_record()).text(),
            "event=decision record=7 action=kill reason=threshold-met wake=usage-timer "
            "signal=memory.available subject=node available=94371840 limit=100Mi "
            "capacity=1073741824 pending_release=0 cause=threshold at_once=yes victim=leak "
            "cgroup=/leak victim_working_set=314572800 victim_request=unknown victim_priority=0 "
            "victim_exceeds_request=yes victim_growth=unknown "
            "message=\"The node was low on resource: memory. \" candidates=2 "
            "runners_up=\"web:priority=5:working-set=unknown:protected\"");
}

TEST(RecordLog, JsonHasAmountsAsNumbersAndNullForUnknownOnes) {
  Record record = kill_record();
  std::string members = decision_line(record).json_members();
  EXPECT_NE(members.find(R"("victim_working_set":314572800,"victim_request":null,)"
                         R"("victim_priority":0,"victim_exceeds_request":true,)"
                         R"("victim_growth":null,)"),
            std::string::npos)
      << members;
  record.decision.damage.emplace().killable = mib(4);
  record.decision.considered[0].key.priority_unknown = true;
  members = decision_line(record).json_members();
  EXPECT_NE(members.find(R"("victim_priority":null)"), std::string::npos) << members;
  EXPECT_NE(members.find(R"("killable":4194304,"left_behind":null,"outside":null)"),
            std::string::npos)
      << members;
}

TEST(RecordLog, AKillThatIsHeldBackNamesTheMemory) {
  Record record = kill_record();
  record.decision.action = Action::none;
  record.decision.reason = Reason::kills_freed_little;
  record.decision.evictions.clear();
  record.decision.damage = Damage{.kills = 2,
                                  .expected = mib(8),
                                  .freed = mib(1),
                                  .need = mib(3),
                                  .killable = mib(4),
                                  .left_behind = mib(7),
                                  .outside = std::nullopt,
                                  .outside_growth = mib(5)};
  record.observation.kinds = MemoryKinds{mib(2), std::nullopt, mib(6), Bytes{0}};
  const std::string text = decision_line(record).text();
  EXPECT_NE(text.find("recent_kills=2 expected=8388608 freed=1048576 need=3145728 "
                      "killable=4194304 left_behind=7340032 outside=unknown "
                      "outside_growth=5242880 anon=2097152 shmem=6291456 kernel=0 candidates="),
            std::string::npos)
      << text;
}

TEST(RecordLog, LogsEveryKnownGrowth) {
  Record record = kill_record();
  record.decision.considered[0].sample.growth = mib(1);
  record.decision.considered[1].sample.growth = Bytes{0};
  const std::string text = decision_line(record).text();
  EXPECT_NE(text.find(" victim_growth=1048576 "), std::string::npos) << text;
  EXPECT_NE(text.find("web:priority=5:working-set=unknown:growth=0:protected"), std::string::npos)
      << text;
}

TEST(RecordLog, ASoftEvictionLogsItsGracePeriod) {
  Record record = kill_record();
  record.decision.evictions.front().at_once = false;
  record.decision.evictions.front().grace = std::chrono::seconds(30);
  EXPECT_NE(decision_line(record).text().find(" at_once=no grace=30s "), std::string::npos);
}

TEST(RecordLog, AConditionIsLoggedInKubeletsWords) {
  ConditionStatus status;
  status.condition = Condition::disk_pressure;
  status.status = true;
  EXPECT_EQ(condition_line(status).text(),
            "event=condition condition=DiskPressure status=True reason=KubeletHasDiskPressure "
            "message=\"kubelet has disk pressure\" node_event=NodeHasDiskPressure "
            "taint=node.kubernetes.io/disk-pressure");
}

Record kernel_kill_record() {
  Record record = kill_record();
  OomKillEvent& seen = record.oom_kill.emplace().event;
  seen.at = from_ns(9'000'000);
  seen.victim = {123, 4};
  seen.comm = {'h', 'o', 'g', ' ', '1'};
  seen.uid = 1000;
  seen.oom_score_adj = -7;
  return record;
}

TEST(RecordLog, LogsTheKnownFactsOfAKernelKill) {
  Record record = kernel_kill_record();
  EXPECT_EQ(oom_kill_line(record).text(),
            "event=kernel-oom-kill record=7 victim=\"hog 1\" pid=123 uid=1000 cgroup=unknown "
            "constraint=unknown oom_score_adj=-7 predicted=none inaction=not-watched");
  OomKill& kill = *record.oom_kill;
  kill.event.path = "/a/b";
  kill.event.constraint = Constraint::memcg;
  kill.event.constraint_deduced = true;
  kill.event.domain_path = "/a";
  kill.event.domain_usage = mib(2);
  kill.event.points = 17;
  kill.event.total_pages = 512;
  kill.event.memory = ProcessMemory{1, 2, 3, 4, 5};
  kill.event.killer = ProcessId{9, 1};
  kill.event.killer_comm = {'x'};
  kill.event.with_another = true;
  kill.forecast = OomForecast{from_ns(8'000'000), OomVerdict::kills, ProcessId{123, 4}, true};
  kill.inaction = Inaction::too_fast;
  kill.since_crossing = std::chrono::microseconds(1500);
  EXPECT_EQ(oom_kill_line(record).text(),
            "event=kernel-oom-kill record=7 victim=\"hog 1\" pid=123 uid=1000 cgroup=/a/b "
            "constraint=memcg deduced=yes domain=/a domain_usage=2097152 domain_limit=unknown "
            "oom_score_adj=-7 points=17 total_pages=512 victim_pages=15 killer=x killer_pid=9 "
            "with_another=yes predicted=right prediction=kills predicted_pid=123 "
            "prediction_age_us=1000.0 inaction=too-fast since_crossing_us=1500.0");
}

TEST(RecordLog, AnOutcomeLogsOnlyReachedStages) {
  Record record = kill_record();
  record.stages.crossed = from_ns(1'000'000);
  record.stages.woken = from_ns(1'010'000);
  record.stages.observed = from_ns(1'190'000);
  record.stages.decided = from_ns(1'200'000);
  Outcome outcome;
  outcome.victim = record.decision.considered[0].sample.workload;
  outcome.state = KillState::stuck;
  outcome.processes = 2;
  outcome.signalled = from_ns(1'250'000);
  outcome.attempts = {{Rung::mrelease, from_ns(0), 0, Error{0, "queue full"}}};
  record.outcome = outcome;
  EXPECT_EQ(outcome_line(record).text(),
            "event=outcome record=7 victim=leak cgroup=/leak state=stuck dry_run=no processes=2 "
            "freed=0 wake_us=10.0 observe_us=180.0 decide_us=10.0 signal_us=50.0 "
            "crossed_to_signalled_at_most_us=250.0 "
            "failed_rung=process_mrelease failure=\"queue full\"");
}

}  // namespace
}  // namespace forestall::exports
