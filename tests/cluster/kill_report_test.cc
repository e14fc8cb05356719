// SPDX-License-Identifier: Apache-2.0
#include "cluster/kill_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cluster/toy_agent.h"

namespace forestall::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(KilledPod, IsKnownWhenTheKillBegins) {
  const v1::Record begun = begun_kill_of("u");
  ASSERT_TRUE(killed_pod(begun));
  EXPECT_EQ(killed_pod(begun)->uid, "u");
  EXPECT_EQ(killed_pod(begun)->kill, killed_pod(kill_of("u"))->kill);
  v1::Record soft = begun;
  soft.mutable_begun()->set_state(v1::KillProgress::TERMINATING);
  EXPECT_TRUE(killed_pod(soft));
  v1::Record dry_run = begun;
  dry_run.mutable_begun()->set_dry_run(true);
  EXPECT_FALSE(killed_pod(dry_run));
  v1::Record failed = begun;
  failed.mutable_begun()->set_state(v1::KillProgress::FAILED);
  EXPECT_FALSE(killed_pod(failed));
  v1::Record of_an_older_agent = begun;
  of_an_older_agent.clear_begun();
  EXPECT_FALSE(killed_pod(of_an_older_agent)) << "it may be a dry run";
  v1::Record damaged = begun;
  damaged.mutable_decision()->mutable_evictions(0)->set_candidate(2);
  EXPECT_FALSE(killed_pod(damaged));
  damaged.mutable_decision()->clear_evictions();
  EXPECT_FALSE(killed_pod(damaged));
}

TEST(KilledPod, IsThatOfACompleteKillOfAPodOfTheApiServer) {
  EXPECT_EQ(killed_pod(kill_of("u")).value_or(KilledPod{}).uid, "u");
  v1::Record dry_run = kill_of("u");
  dry_run.mutable_outcome()->set_dry_run(true);
  EXPECT_FALSE(killed_pod(dry_run));
  v1::Record failed = kill_of("u");
  failed.mutable_outcome()->clear_signalled_ns();
  EXPECT_FALSE(killed_pod(failed));
  v1::Record unknown = kill_of("u");
  unknown.mutable_outcome()->mutable_victim()->clear_pod();
  EXPECT_FALSE(killed_pod(unknown));
  v1::Record is_static = kill_of("u");
  is_static.mutable_outcome()->mutable_victim()->mutable_pod()->set_origin(v1::Pod::STATIC_FILE);
  EXPECT_FALSE(killed_pod(is_static));
}

TEST(KilledPod, HasTheWordsOfItsEviction) {
  v1::Record begun = begun_kill_of("u");
  v1::Eviction& eviction = *begun.mutable_decision()->mutable_evictions(0);
  eviction.set_message("The node was low on resource: memory. ");
  v1::Eviction::Annotation& annotation = *eviction.add_annotations();
  annotation.set_name("starved_resource");
  annotation.set_value("memory");
  begun.mutable_stages()->set_decided_ns(5);
  const auto pod = killed_pod(begun);
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->message, "The node was low on resource: memory. ");
  EXPECT_THAT(pod->annotations, ElementsAre(Pair("starved_resource", "memory")));
  EXPECT_EQ(pod->at, from_ns(5));
  v1::Record ended = begun;
  *ended.mutable_outcome() = kill_of("u").outcome();
  ended.mutable_outcome()->set_exited_ns(9);
  EXPECT_EQ(killed_pod(ended)->message, pod->message);
  EXPECT_EQ(killed_pod(ended)->at, from_ns(9)) << "a grace period was over then";
}

TEST(KernelKill, ExplainsTheKill) {
  v1::Record record;
  EXPECT_FALSE(kernel_kill(record));
  v1::OomKill& kill = *record.mutable_oom_kill();
  kill.set_inaction(v1::OomKill::BELOW_THRESHOLD);
  v1::OomKillEvent& event = *kill.mutable_event();
  event.set_name("evil\x1b[2J");
  event.mutable_victim()->set_pid(42);
  event.set_path("/kubepods/pod1/c");
  event.set_constraint(v1::OomDomain::MEMCG);
  event.set_domain_path("/kubepods/pod1/c");
  event.set_domain_limit_bytes(64 << 20);
  const auto read = kernel_kill(record);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->cgroup, "/kubepods/pod1/c");
  EXPECT_THAT(read->message, HasSubstr("(pid 42)"));
  EXPECT_THAT(read->message,
              HasSubstr("in /kubepods/pod1/c, which was at its limit of 64Mi; why the agent had "
                        "not acted: no threshold was crossed before"));
  EXPECT_THAT(read->message, ::testing::Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace forestall::cluster
