// SPDX-License-Identifier: Apache-2.0
// The words of the model: every enumerator has its own name, and names in configurations and on the
// command line parse to their enumerator.
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "model/decision.h"
#include "model/eviction.h"
#include "model/feature.h"
#include "model/hook.h"
#include "model/kill.h"
#include "model/memory_qos.h"
#include "model/oom.h"
#include "model/oom_kill.h"
#include "model/outcome.h"
#include "model/process.h"
#include "model/signal.h"
#include "model/wake.h"
#include "model/workload.h"

namespace forestall {
namespace {

// All enumerators from 0 to `last` have distinct, non-empty names.
template <typename Enum>
void check_names(Enum last) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    const auto name = to_string(static_cast<Enum>(i));
    EXPECT_FALSE(name.empty()) << "enumerator " << i;
    EXPECT_TRUE(names.insert(name).second) << name << " names two enumerators";
  }
  EXPECT_TRUE(to_string(static_cast<Enum>(static_cast<int>(last) + 1)).empty())
      << "an enumerator was added: extend the test";
}

TEST(WordsTest, EveryEnumeratorHasItsOwnName) {
  check_names(Action::reclaim);
  check_names(Reason::container_pressure);
  check_names(Exclusion::unkillable);
  check_names(Feature::oom_score_adj);
  check_names(FeatureState::forced_off);
  check_names(Tier::none);
  check_names(KillState::terminating);
  check_names(Rung::reclaim);
  check_names(Signal::swap_available);
  check_names(WorkloadClass::other);
  check_names(Response::slow);
  check_names(WakeSource::pressure);
  check_names(WorkloadKind::cgroup);
  check_names(Resource::pids);
  check_names(Filesystem::containerfs);
  check_names(FilesystemLayout::split);
  check_names(QosClass::best_effort);
  check_names(EvictionCause::psi_pressure);
  check_names(ChainStep::suspended);
  check_names(RuleOutcome::node_stalls);
  check_names(HookState::refused);
  check_names(MemoryQosMode::enforce);
  check_names(MemoryQosState::failed);
  check_names(MemoryReservation::tiered);
  check_names(ReclaimStep::unused_images);
  check_names(ReclaimState::done);
  check_names(Protection::annotated);
  check_names(Preference::prefer);
  check_names(Unkillable::in_vfork);
  check_names(Constraint::memcg);
  check_names(OomVerdict::disabled);
  check_names(Inaction::stopped);
}

TEST(WordsTest, SignalsAndFeaturesAreReadBack) {
  for (const Signal signal : kSignals) EXPECT_EQ(parse_signal(to_string(signal)), signal);
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    EXPECT_EQ(parse_feature(to_string(feature_at(i))), feature_at(i));
  }
  EXPECT_EQ(parse_signal("Memory.available"), std::nullopt);  // case-sensitive, as in kubelet
  EXPECT_EQ(parse_signal(""), std::nullopt);
  EXPECT_EQ(parse_feature("no-such-feature"), std::nullopt);
}

TEST(WordsTest, WorkingSetIsNeverNegativeAndUnknownStaysUnknown) {
  EXPECT_EQ(working_set(mib(10), mib(4)), mib(6));
  EXPECT_EQ(working_set(mib(4), mib(10)), Bytes{0});
  WorkloadSample sample;
  EXPECT_EQ(sample.working_set(), std::nullopt);
  sample.usage = mib(3);
  EXPECT_EQ(sample.working_set(), std::nullopt);
  sample.inactive_file = Bytes{0};
  EXPECT_EQ(sample.working_set(), mib(3));
}

}  // namespace
}  // namespace forestall
