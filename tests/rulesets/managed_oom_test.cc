// SPDX-License-Identifier: Apache-2.0
// systemd-oomd's rules. Tests name their source: a function of systemd 252 (src/oom), or a test of
// its suite (src/oom/test-oomd-util.c).
#include "rulesets/managed_oom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace forestall::rulesets {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kMi = 1 << 20;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

// --- properties ---------------------------------------------------------------------------------

TEST(ManagedOomLimit, IsScaledAsPid1Does) {
  // UINT32_SCALE_TO_PERMYRIAD(), and its inverse UINT32_SCALE_FROM_PERMYRIAD().
  EXPECT_EQ(permyriad_of(4294967295), 10000);
  EXPECT_EQ(permyriad_of(2147483647), 5000);
  EXPECT_EQ(permyriad_of(1), 0);
  EXPECT_EQ(permyriad_of(0), 0);
  for (const std::uint64_t permyriad : {1ULL, 12ULL, 1234ULL, 5000ULL, 6050ULL, 9999ULL}) {
    const auto sent = static_cast<std::uint32_t>(permyriad * 4294967295ULL / 10000ULL);
    EXPECT_EQ(permyriad_of(sent), static_cast<std::int64_t>(permyriad));
  }
}

ManagedOomElement element(ManagedOomProperty property, const std::string& path, bool kill = true,
                          std::uint32_t limit = 0) {
  ManagedOomElement made;
  made.kill = kill;
  made.path = path;
  made.property = property;
  made.limit = limit;
  return made;
}

constexpr auto kSwap = ManagedOomProperty::swap;
constexpr auto kPressure = ManagedOomProperty::memory_pressure;

// process_managed_oom_message()
TEST(ManagedOomRules, LaterElementsReplaceEarlierOnes) {
  const OomdConf conf;
  ManagedOomRules rules;
  rules.apply(element(kSwap, "/"), conf);
  rules.apply(element(kPressure, "/a", true, 2147483647), conf);
  rules.apply(element(kPressure, "/b"), conf);
  EXPECT_THAT(rules.swap, ElementsAre("/"));
  EXPECT_EQ(rules.pressure.at("/a").limit_permyriad, 5000);
  EXPECT_EQ(rules.pressure.at("/b").limit_permyriad, 6000);
  EXPECT_EQ(rules.pressure.at("/b").duration, 30s);
  // The limit of a monitored cgroup is updated; each property is of its own.
  rules.apply(element(kPressure, "/a", true, 0), conf);
  EXPECT_EQ(rules.pressure.at("/a").limit_permyriad, 6000);
  rules.apply(element(kSwap, "/a", false), conf);
  EXPECT_EQ(rules.pressure.size(), 2U);
  rules.apply(element(kPressure, "/a", false), conf);
  rules.apply(element(kSwap, "/", false), conf);
  EXPECT_THAT(rules.swap, IsEmpty());
  EXPECT_EQ(rules.pressure.size(), 1U);
  ManagedOomElement longer = element(kPressure, "/b");
  longer.duration = 5s;
  rules.apply(longer, conf);
  EXPECT_EQ(rules.pressure.at("/b").duration, 5s);
}

// --- ranking ------------------------------------------------------------------------------------

std::vector<std::string> names(const std::vector<ManagedCandidate>& candidates) {
  std::vector<std::string> all;
  for (const ManagedCandidate& each : candidates) all.push_back(each.cgroup);
  return all;
}

// test_oomd_sort_cgroups()
TEST(ManagedRanking, SuiteOfSystemd) {
  constexpr auto kNone = ManagedPreference::none;
  const std::vector<ManagedCandidate> candidates{
      {"/herp.slice", kNone, 20, 33, 0, 10},
      {"/herp.slice/derp.scope", kNone, 60, 1, 33, 20},
      {"/herp.slice/derp.scope/sheep.service", kNone, 40, 33, 1, 40},
      {"/zupa.slice", kNone, 10, 2, 33, 10},
      {"/boop.slice", kNone, 11, 1, 33, 99},
      {"/omitted.slice", ManagedPreference::omit, 90, kMax, 0, 0},
      {"/avoid.slice", ManagedPreference::avoid, 99, kMax, 0, 0}};
  EXPECT_THAT(names(rank_managed(candidates, ManagedRanking::swap)),
              ElementsAre("/herp.slice/derp.scope", "/herp.slice/derp.scope/sheep.service",
                          "/herp.slice", "/boop.slice", "/zupa.slice", "/avoid.slice"));
  EXPECT_THAT(names(rank_managed(candidates, ManagedRanking::pgscan)),
              ElementsAre("/herp.slice", "/herp.slice/derp.scope/sheep.service", "/zupa.slice",
                          "/boop.slice", "/herp.slice/derp.scope", "/avoid.slice"));
}

TEST(ManagedRanking, EqualOnesAreOrderedByPath) {
  const std::vector<ManagedCandidate> candidates{
      {"/c", {}, 5, 1, 0, 1}, {"/a", {}, 5, 1, 0, 1}, {"/b", {}, 5, 1, 0, 1}};
  for (const auto by : {ManagedRanking::swap, ManagedRanking::pgscan}) {
    EXPECT_THAT(names(rank_managed(candidates, by)), ElementsAre("/a", "/b", "/c"));
  }
}

// test_oomd_pgscan_rate()
TEST(ManagedCandidate, RateOfARecreatedCgroupIsItsTotal) {
  EXPECT_EQ((ManagedCandidate{"/a", {}, 0, 10, 0, 0}).pgscan_rate(), 10U);
  EXPECT_EQ((ManagedCandidate{"/a", {}, 0, 13, 7, 0}).pgscan_rate(), 6U);
  EXPECT_EQ((ManagedCandidate{"/a", {}, 0, 3, 7, 0}).pgscan_rate(), 3U);
  EXPECT_EQ((ManagedCandidate{"/a", {}, 0, kMax, 0, 0}).pgscan_rate(), kMax);
}

// --- evaluations --------------------------------------------------------------------------------

Cgroup cgroup(const std::string& path, std::int64_t usage, std::int64_t swap = 0,
              std::int64_t pgscan = 0, float avg10 = 0) {
  Cgroup made;
  made.path = path;
  made.current = usage;
  made.min = 0;
  made.low = 0;
  made.swap_current = swap;
  made.stat.emplace().pgscan = pgscan;
  made.memory_pressure.emplace().full.emplace().avg10 = avg10;
  made.oom_group = false;
  return made;
}

Cgroup with_xattr(Cgroup cgroup, const std::string& name, const std::string& value) {
  cgroup.xattrs.emplace_back(name, value);
  return cgroup;
}
Cgroup with_uid(Cgroup cgroup, std::uint32_t uid) {
  cgroup.uid = uid;
  return cgroup;
}

// A host on which the folds of the tests run. A kill finds a process unless `empty` has the path.
class Monitored {
 public:
  explicit Monitored(std::vector<ManagedOomElement> elements, OomdConf conf = {}) {
    config_.conf = conf;
    host_.mem_total = 1000 * kMi;
    host_.mem_available = 500 * kMi;
    host_.swap_total = 1000 * kMi;
    host_.swap_free = 1000 * kMi;
    for (const ManagedOomElement& each : elements) state_.apply(each, config_.conf);
  }

  Host& host() { return host_; }
  ManagedOomConfig& config() { return config_; }
  ManagedOomState& state() { return state_; }
  std::set<std::string>& empty() { return empty_; }
  const RuleDecision& last() const { return last_; }

  // "memory-used /a", for each kill of the evaluation.
  std::vector<std::string> at(std::chrono::nanoseconds time, std::vector<Cgroup> cgroups) {
    RuleObservation observed;
    observed.time = time;
    observed.host = host_;
    Cgroup root;
    root.path = "/";
    root.memory_pressure.emplace().full.emplace().avg10 = root_avg10;
    cgroups.insert(cgroups.begin(), root);
    observed.cgroups = std::move(cgroups);
    std::vector<bool> answers;
    ManagedOomStep step = managed_oom_step(config_, state_, observed, answers);
    while (step.wanted_kill) {
      answers.push_back(!empty_.contains(*step.wanted_kill));
      step = managed_oom_step(config_, state_, observed, answers);
    }
    state_ = step.state;
    last_ = step.decision;
    std::vector<std::string> kills;
    for (const RuleKill& each : step.decision.kills) {
      kills.push_back(each.reason + " " + each.cgroup + (each.dry ? " dry" : ""));
    }
    return kills;
  }

  float root_avg10 = 0;

 private:
  ManagedOomConfig config_;
  ManagedOomState state_;
  Host host_;
  std::set<std::string> empty_;
  RuleDecision last_;
};

Monitored on_swap(const std::string& path = "/") {
  Monitored made({element(kSwap, path)});
  made.host().mem_available = 99 * kMi;
  made.host().swap_free = 99 * kMi;
  return made;
}

// monitor_swap_contexts_handler(), oomd_mem_available_below(), oomd_swap_free_below()
TEST(ManagedSwap, ActsWhenMemoryAndSwapAreAboveTheLimit) {
  const std::vector<Cgroup> cgroups{cgroup("/a", 1, 60 * kMi)};
  EXPECT_THAT(on_swap().at(0s, cgroups), ElementsAre("memory-used /a"));
  Monitored memory = on_swap();
  memory.host().mem_available = 100 * kMi;  // exactly at the limit
  EXPECT_THAT(memory.at(0s, cgroups), IsEmpty());
  Monitored swap = on_swap();
  swap.host().swap_free = 100 * kMi;
  EXPECT_THAT(swap.at(0s, cgroups), IsEmpty());
  Monitored without = on_swap();
  without.host().swap_total = 0;
  without.host().swap_free = 0;
  EXPECT_THAT(without.at(0s, cgroups), IsEmpty());
  Monitored unknown = on_swap();
  unknown.host().mem_available.reset();
  EXPECT_THAT(unknown.at(0s, cgroups), IsEmpty());
  EXPECT_THAT(Monitored({}).at(0s, cgroups), IsEmpty());
  OomdConf conf;
  conf.swap_used_limit = 5000;
  Monitored half({element(kSwap, "/")}, conf);
  half.host().mem_available = 499 * kMi;
  half.host().swap_free = 499 * kMi;
  EXPECT_THAT(half.at(0s, cgroups), ElementsAre("memory-used /a"));
}

// monitor_swap_contexts_handler() has no delay.
TEST(ManagedSwap, KillsAtEachEvaluation) {
  Monitored host = on_swap();
  const std::vector<Cgroup> cgroups{cgroup("/a", 1, 60 * kMi)};
  EXPECT_THAT(host.at(0ms, cgroups), ElementsAre("memory-used /a"));
  EXPECT_THAT(host.at(150ms, cgroups), ElementsAre("memory-used /a"));
}

// oomd_kill_by_swap_usage(), THRESHOLD_SWAP_USED_PERCENT
TEST(ManagedSwap, SkipsThoseBelowFivePercent) {
  Monitored host = on_swap();
  EXPECT_THAT(host.at(0s, {cgroup("/a", 1, 50 * kMi)}), IsEmpty());
  EXPECT_THAT(host.at(0s, {cgroup("/a", 1, 50 * kMi + 1)}), ElementsAre("memory-used /a"));
  // An avoided one stands at the end, so the search goes on past small ones.
  EXPECT_THAT(host.at(0s, {with_xattr(cgroup("/a", 1, 90 * kMi), "user.oomd_avoid", "1"),
                           cgroup("/b", 1, 10 * kMi)}),
              ElementsAre("memory-used /a"));
}

// oomd_cgroup_kill(): no process is no error, so no other candidate is tried.
TEST(ManagedSwap, ACandidateWithoutProcessesEndsTheSearch) {
  Monitored host = on_swap();
  host.empty().insert("/a");
  EXPECT_THAT(host.at(0s, {cgroup("/a", 1, 90 * kMi), cgroup("/b", 1, 80 * kMi)}), IsEmpty());
  EXPECT_EQ(host.last().rulesets.at(0).actions.at(0).attempts.at(0).cgroup, "/a");
}

// recursively_get_cgroup_context()
TEST(ManagedCandidates, AreLeavesAndGroups) {
  Monitored host = on_swap("/m");
  Cgroup group = cgroup("/m/group", 1, 70 * kMi);
  group.oom_group = true;
  const std::vector<Cgroup> cgroups{
      cgroup("/m", 1, 500 * kMi),           group,
      cgroup("/m/group/leaf", 1, 70 * kMi), cgroup("/m/inner", 1, 400 * kMi),
      cgroup("/m/inner/leaf", 1, 60 * kMi), cgroup("/other", 1, 900 * kMi)};
  EXPECT_THAT(host.at(0s, cgroups), ElementsAre("memory-used /m/group"));
  // The monitored cgroup itself only without children.
  EXPECT_THAT(on_swap("/m").at(0s, {cgroup("/m", 1, 500 * kMi)}), ElementsAre("memory-used /m"));
}

// systemd-oomd gives up the children after one whose memory.oom.group cannot be read.
TEST(ManagedCandidates, AnUnreadableGroupHidesNoOther) {
  Cgroup unreadable = cgroup("/m/a", 1, 90 * kMi);
  unreadable.oom_group.reset();
  const std::vector<Cgroup> cgroups{cgroup("/m", 1), unreadable, cgroup("/m/b", 1, 80 * kMi)};
  EXPECT_THAT(on_swap("/m").at(0s, cgroups), ElementsAre("memory-used /m/b"));
  Monitored absent = on_swap("/m");
  absent.config().absent.oom_group = true;
  EXPECT_THAT(absent.at(0s, cgroups), ElementsAre("memory-used /m/a"));
}

// oomd_cgroup_context_acquire()
TEST(ManagedCandidates, AreDroppedIfAFileIsMissing) {
  const auto without = [](auto remove) {
    Cgroup made = cgroup("/a", 1, 90 * kMi);
    remove(made);
    return std::vector<Cgroup>{made, cgroup("/b", 1, 80 * kMi)};
  };
  for (const auto& cgroups : {without([](Cgroup& made) { made.memory_pressure.reset(); }),
                              without([](Cgroup& made) { made.memory_pressure->full.reset(); }),
                              without([](Cgroup& made) { made.current.reset(); }),
                              without([](Cgroup& made) { made.min.reset(); }),
                              without([](Cgroup& made) { made.low.reset(); }),
                              without([](Cgroup& made) { made.stat->pgscan.reset(); }),
                              without([](Cgroup& made) { made.stat.reset(); })}) {
    EXPECT_THAT(on_swap().at(0s, cgroups), ElementsAre("memory-used /b"));
  }
  // Swap accounting may be off.
  EXPECT_THAT(on_swap().at(0s, without([](Cgroup& made) { made.swap_current.reset(); })),
              ElementsAre("memory-used /b"));
}

struct PreferenceRow {
  const char* source;
  Cgroup first;
  std::uint32_t monitored_uid;
  const char* victim;
};

// oomd_fetch_cgroup_oom_preference()
TEST(ManagedPreference, IsABooleanOfATrustedOwner) {
  const auto marked = [](const char* name, const char* value, std::uint32_t uid) {
    return with_uid(with_xattr(cgroup("/m/a", 2, 0, 9), name, value), uid);
  };
  const PreferenceRow rows[] = {
      {"avoid is last", marked("user.oomd_avoid", "1", 0), 0, "/m/b"},
      {"omit", marked("user.oomd_omit", "true", 0), 0, "/m/b"},
      {"cg_get_xattr_bool()", marked("user.oomd_omit", "YES", 0), 0, "/m/b"},
      {"cg_get_xattr_bool(): 0 is unset", marked("user.oomd_avoid", "0", 0), 0, "/m/a"},
      {"cg_get_xattr_bool(): no is unset", marked("user.oomd_omit", "no", 0), 0, "/m/a"},
      {"cg_get_xattr_bool(): rubbish is unset", marked("user.oomd_omit", "maybe", 0), 0, "/m/a"},
      {"only user.*", marked("trusted.oomd_omit", "1", 0), 0, "/m/a"},
      {"systemd has no prefer", marked("user.oomd_avoid", "off", 0), 0, "/m/a"},
      {"of another user", marked("user.oomd_omit", "1", 1000), 0, "/m/a"},
      {"of the user of the monitored cgroup", marked("user.oomd_omit", "1", 1000), 1000, "/m/b"},
      {"of another user than that", marked("user.oomd_omit", "1", 1001), 1000, "/m/a"},
      {"root's mark holds everywhere", marked("user.oomd_omit", "1", 0), 1000, "/m/b"},
  };
  for (const PreferenceRow& row : rows) {
    OomdConf conf;
    conf.pressure_duration = 1s;
    Monitored host({element(kPressure, "/m")}, conf);
    const std::vector<Cgroup> cgroups{with_uid(cgroup("/m", 9, 0, 9, 99), row.monitored_uid),
                                      row.first, cgroup("/m/b", 1, 0, 1)};
    host.at(0s, cgroups);
    EXPECT_THAT(host.at(1s, cgroups), ElementsAre("memory-pressure " + std::string(row.victim)))
        << row.source;
  }
}

// Swap is judged for the root, so the marks of users do not count.
TEST(ManagedPreference, OfUsersDoesNotCountForSwap) {
  Monitored host = on_swap("/m");
  const std::vector<Cgroup> cgroups{
      with_uid(cgroup("/m", 1), 1000),
      with_uid(with_xattr(cgroup("/m/a", 1, 90 * kMi), "user.oomd_omit", "1"), 1000)};
  EXPECT_THAT(host.at(0s, cgroups), ElementsAre("memory-used /m/a"));
}

TEST(ManagedPreference, OmitWinsOverAvoid) {
  const Cgroup both = with_xattr(with_xattr(cgroup("/a", 1, 90 * kMi), "user.oomd_avoid", "1"),
                                 "user.oomd_omit", "1");
  EXPECT_THAT(on_swap().at(0s, {both}), IsEmpty());
}

Monitored under_pressure(std::chrono::microseconds duration = 10s) {
  OomdConf conf;
  conf.pressure_duration = duration;
  return Monitored({element(kPressure, "/m")}, conf);
}

std::vector<Cgroup> pressed(float avg10, std::int64_t pgscan, std::int64_t of_a = 0,
                            std::int64_t of_b = 0) {
  return {cgroup("/m", 100, 0, pgscan, avg10), cgroup("/m/a", 10, 0, of_a),
          cgroup("/m/b", 20, 0, of_b)};
}

// oomd_pressure_above()
TEST(ManagedPressure, MustHoldForTheDuration) {
  Monitored host = under_pressure();
  EXPECT_THAT(host.at(0s, pressed(60.01F, 1)), IsEmpty());
  EXPECT_THAT(host.at(9999ms, pressed(61, 2)), IsEmpty());
  EXPECT_THAT(host.at(10s, pressed(61, 3)), ElementsAre("memory-pressure /m/b"));
  Monitored equal = under_pressure();
  equal.at(0s, pressed(60, 1));
  EXPECT_THAT(equal.at(20s, pressed(60, 2)), IsEmpty());
  Monitored broken = under_pressure();
  broken.at(0s, pressed(61, 1));
  broken.at(5s, pressed(60, 2));
  broken.at(6s, pressed(61, 3));
  EXPECT_THAT(broken.at(15s, pressed(61, 4)), IsEmpty());
  EXPECT_THAT(broken.at(16s, pressed(61, 5)), ElementsAre("memory-pressure /m/b"));
}

// In nanoseconds such durations overflow, and then each crossing of the limit would kill at once.
TEST(ManagedPressure, TheLongestDurationsNeverEnd) {
  for (const std::chrono::microseconds duration :
       {std::chrono::microseconds::max(), std::chrono::microseconds(9'223'372'037'000'000)}) {
    Monitored host = under_pressure(duration);
    for (const std::chrono::seconds time : {0s, 15s, 3600s}) {
      EXPECT_THAT(host.at(time, pressed(61, time.count() + 1)), IsEmpty());
    }
  }
}

// The candidates are read from the moment any limit is exceeded: a rate covers one evaluation.
TEST(ManagedPressure, RanksByTheRateSinceTheLastEvaluation) {
  Monitored host = under_pressure();
  host.at(0s, pressed(61, 1, 1000, 0));
  host.at(9s, pressed(61, 2, 1001, 50));
  EXPECT_THAT(host.at(10s, pressed(61, 3, 1002, 60)), ElementsAre("memory-pressure /m/b"));
  const RankedCgroup& first = host.last().rulesets.at(0).actions.at(0).ranking.at(0);
  EXPECT_EQ(first.cgroup, "/m/b");
  EXPECT_EQ(std::get<std::int64_t>(first.key.at(0).second), 10);
  // A candidate that is seen for the first time counts with its whole past.
  Monitored fresh = under_pressure();
  fresh.at(0s, {cgroup("/m", 9, 0, 1, 61), cgroup("/m/b", 20, 0, 50)});
  EXPECT_THAT(fresh.at(10s, pressed(61, 2, 1000, 900)), ElementsAre("memory-pressure /m/a"));
}

// POST_ACTION_DELAY_USEC
TEST(ManagedPressure, PausesFifteenSecondsAfterAnAction) {
  Monitored host = under_pressure();
  host.at(0s, pressed(61, 1));
  EXPECT_THAT(host.at(10s, pressed(61, 2)), ElementsAre("memory-pressure /m/b"));
  EXPECT_THAT(host.at(24999ms, pressed(61, 3)), IsEmpty());
  EXPECT_TRUE(host.last().rulesets.at(0).paused);
  // The clock of the pressure was not reset.
  EXPECT_THAT(host.at(25s, pressed(61, 4)), ElementsAre("memory-pressure /m/b"));
  // It begins whether a process was found or not.
  Monitored nothing = under_pressure();
  nothing.empty().insert("/m/b");
  nothing.at(0s, pressed(61, 1));
  EXPECT_THAT(nothing.at(10s, pressed(61, 2)), IsEmpty());
  nothing.empty().clear();
  EXPECT_THAT(nothing.at(11s, pressed(61, 3)), IsEmpty());
  EXPECT_THAT(nothing.at(25s, pressed(61, 4)), ElementsAre("memory-pressure /m/b"));
}

// RECLAIM_DURATION_USEC
TEST(ManagedPressure, NeedsReclaimWithinThirtySeconds) {
  Monitored host = under_pressure();
  host.at(0s, pressed(0, 5));  // the whole past of a new cgroup counts as now
  host.at(20s, pressed(61, 5));
  EXPECT_THAT(host.at(30s, pressed(61, 5)), ElementsAre("memory-pressure /m/b"));
  Monitored late = under_pressure();
  late.at(0s, pressed(0, 5));
  late.at(21s, pressed(61, 5));
  EXPECT_THAT(late.at(31s, pressed(61, 5)), IsEmpty());
  EXPECT_THAT(late.at(32s, pressed(61, 6)), ElementsAre("memory-pressure /m/b"));
  Monitored never = under_pressure();
  never.at(0s, pressed(61, 0));
  EXPECT_THAT(never.at(10s, pressed(61, 0)), IsEmpty());
}

// oomd_kill_by_pgscan_rate()
TEST(ManagedPressure, SkipsThoseWithoutReclaimAndMemory) {
  Monitored host = under_pressure();
  const auto cgroups = [](std::int64_t pgscan) {
    return std::vector<Cgroup>{cgroup("/m", 9, 0, pgscan, 61), cgroup("/m/a", 0, 0, 0),
                               with_xattr(cgroup("/m/b", 5, 0, 5), "user.oomd_avoid", "1")};
  };
  host.at(0s, cgroups(1));
  EXPECT_THAT(host.at(10s, cgroups(2)), ElementsAre("memory-pressure /m/b"));
}

// One kill per pass, for the first of several targets.
TEST(ManagedPressure, ActsOnOneTargetAtATime) {
  OomdConf conf;
  conf.pressure_duration = 10s;
  Monitored host({element(kPressure, "/x"), element(kPressure, "/y")}, conf);
  const auto cgroups = [](std::int64_t pgscan) {
    return std::vector<Cgroup>{cgroup("/x", 9, 0, pgscan, 70), cgroup("/x/1", 9, 0, pgscan),
                               cgroup("/y", 9, 0, pgscan, 90), cgroup("/y/1", 90, 0, pgscan * 10)};
  };
  host.at(0s, cgroups(1));
  EXPECT_THAT(host.at(10s, cgroups(2)), ElementsAre("memory-pressure /x/1"));
}

TEST(ManagedPressure, LimitAndDurationAreOfTheCgroup) {
  ManagedOomElement short_one = element(kPressure, "/m", true, 42949673);  // 1 %
  short_one.duration = 2s;
  Monitored host({short_one});
  host.at(0s, pressed(1.01F, 1));
  EXPECT_THAT(host.at(2s, pressed(1.01F, 2)), ElementsAre("memory-pressure /m/b"));
}

// systemd-oomd reads no pgscan of the root.
TEST(ManagedPressure, OfTheRootNeverKills) {
  OomdConf conf;
  conf.pressure_duration = 1s;
  Monitored host({element(kPressure, "/")}, conf);
  host.root_avg10 = 99;
  for (int second = 0; second < 60; ++second) {
    EXPECT_THAT(host.at(std::chrono::seconds(second), {cgroup("/a", 9, 0, second * 100)}),
                IsEmpty());
  }
}

// systemd-oomd forgets a cgroup that cannot be read once.
TEST(ManagedPressure, AnUnreadableCgroupIsTriedAgain) {
  Monitored host = under_pressure();
  host.at(0s, pressed(61, 1));
  host.at(5s, {});
  host.at(6s, pressed(61, 2));
  EXPECT_THAT(host.at(15s, pressed(61, 3)), IsEmpty());
  EXPECT_THAT(host.at(16s, pressed(61, 4)), ElementsAre("memory-pressure /m/b"));
}

TEST(ManagedPressure, EndsWithTheProperty) {
  Monitored host = under_pressure();
  host.at(0s, pressed(61, 1));
  host.state().apply(element(kPressure, "/m", false), host.config().conf);
  EXPECT_THAT(host.at(10s, pressed(61, 2)), IsEmpty());
  host.state().apply(element(kPressure, "/m"), host.config().conf);
  EXPECT_THAT(host.at(11s, pressed(61, 3)), IsEmpty());
  EXPECT_THAT(host.at(41s, pressed(61, 4)), ElementsAre("memory-pressure /m/b"));
}

TEST(ManagedOom, DryRunsKillNothingAndPause) {
  Monitored host = under_pressure();
  host.config().dry_run = true;
  host.at(0s, pressed(61, 1));
  EXPECT_THAT(host.at(10s, pressed(61, 2)), ElementsAre("memory-pressure /m/b dry"));
  EXPECT_THAT(host.at(11s, pressed(61, 3)), IsEmpty());
}

TEST(ManagedOom, BothMonitorsMayActInOneEvaluation) {
  OomdConf conf;
  conf.pressure_duration = 1s;
  Monitored host({element(kSwap, "/"), element(kPressure, "/m")}, conf);
  const auto cgroups = [](std::int64_t pgscan) {
    return std::vector<Cgroup>{cgroup("/m", 9, 0, pgscan, 70), cgroup("/m/1", 9, 0, pgscan),
                               cgroup("/s", 9, 90 * kMi)};
  };
  host.at(0s, cgroups(1));
  host.host().mem_available = kMi;
  host.host().swap_free = kMi;
  EXPECT_THAT(host.at(1s, cgroups(2)), ElementsAre("memory-used /s", "memory-pressure /m/1"));
}

// monitor_memory_pressure_contexts_handler(), clear_candidate_hashmapp()
TEST(ManagedPressure, ForgetsTheCandidatesWhileNoLimitIsExceeded) {
  ManagedOomElement at_once = element(kPressure, "/m");
  at_once.duration = 0s;
  Monitored host({at_once});
  EXPECT_THAT(host.at(0s, pressed(61, 1, 1000, 0)), ElementsAre("memory-pressure /m/a"));
  EXPECT_THAT(host.at(20s, pressed(0, 2, 1000, 0)), IsEmpty());
  // Both count with their whole past again: 1001 and 50, not 1 and 50.
  EXPECT_THAT(host.at(21s, pressed(61, 3, 1001, 50)), ElementsAre("memory-pressure /m/a"));
}

// apply_managed_oom() changes the rules only.
TEST(ManagedPressure, ForgetsACgroupWhoseRuleIsGone) {
  Monitored run({element(kPressure, "/a"), element(kPressure, "/b")});
  run.at(1s, {cgroup("/a", 10, 0, 1, 70), cgroup("/b", 10, 0, 1, 70)});
  run.state().rules.pressure.erase("/a");
  EXPECT_THAT(run.at(2s, {cgroup("/b", 10, 0, 2, 70)}), IsEmpty());
  EXPECT_FALSE(run.state().monitored.contains("/a"));
}

}  // namespace
}  // namespace forestall::rulesets
