// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_question.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace forestall::trace {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Result<TraceQuestion> understand(const TraceOptions& options) {
  return understand_trace(options, {{{"web", "11111111-2222-3333-4444-555555555555"}},
                                    {"22222222-2222-3333-4444-555555555555"}});
}

CgroupChoice choice(const std::vector<std::string>& globs,
                    const std::vector<std::string>& pods = {}) {
  auto made = CgroupChoice::create(globs, pods);
  EXPECT_TRUE(made.ok());
  return *made;
}

TEST(CgroupChoice, CoversMatchesAndTheirDescendants) {
  const CgroupChoice some = choice({"/pods/*/c?", "/system"});
  EXPECT_TRUE(some.covers("/pods/a/c1"));
  EXPECT_TRUE(some.covers("/pods/a/c1/deeper/still"));
  EXPECT_TRUE(some.covers("/system"));
  EXPECT_FALSE(some.covers("/systemd"));
  EXPECT_FALSE(some.covers("/pods/a"));
  EXPECT_FALSE(some.covers("/"));
  EXPECT_TRUE(some.names("/pods/a/c1"));
  EXPECT_FALSE(some.names("/pods/a/c1/deeper"));
  EXPECT_TRUE(choice({"/"}).covers("/anything"));
  EXPECT_TRUE(choice({}).covers("/anything"));
  EXPECT_FALSE(choice({"/a"}).covers("")) << "what has no cgroup is in none";
}

TEST(CgroupChoice, FindsPodsByUid) {
  const CgroupChoice pod = choice({}, {"11111111-2222-3333-4444-555555555555"});
  const std::string systemd =
      "/kubepods.slice/kubepods-burstable.slice/"
      "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice";
  EXPECT_TRUE(pod.covers(systemd));
  EXPECT_TRUE(pod.covers(systemd + "/cri-abc.scope"));
  EXPECT_TRUE(pod.names(systemd));
  EXPECT_TRUE(pod.covers("/kubepods/pod11111111-2222-3333-4444-555555555555/x"));
  EXPECT_FALSE(pod.covers("/kubepods/pod99999999-2222-3333-4444-555555555555/x"));
  EXPECT_FALSE(pod.all());
}

TEST(TraceQuestion, IncludesCgroupsOnlyOnRequest) {
  const auto question = understand({});
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question->kinds.count(), kTraceKinds - 1);
  EXPECT_FALSE(has(question->kinds, TraceKind::cgroup));
  EXPECT_FALSE(question->kinds_given);
  EXPECT_EQ(question->ring_bytes, std::size_t{16} << 20);
}

TEST(TraceQuestion, KindsAreListsAndMayBeRepeated) {
  TraceOptions options;
  options.kinds = {"oom,stall", "reclaim"};
  const auto question = understand(options);
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question->kinds.count(), 5U);
  EXPECT_TRUE(has(question->kinds, TraceKind::kswapd));
  options.kinds = {"all"};
  EXPECT_EQ(understand(options)->kinds.count(), kTraceKinds);
  options.kinds = {"oom,nonsense"};
  EXPECT_THAT(understand(options).error().message, HasSubstr("'nonsense'"));
}

TEST(TraceQuestion, EveryWordIsUnderstoodAsItself) {
  for (std::size_t i = 0; i < kTraceKinds; ++i) {
    TraceOptions options;
    options.kinds = {std::string(trace_word(trace_kind_at(i)))};
    const auto question = understand(options);
    ASSERT_TRUE(question.ok());
    EXPECT_TRUE(question->kinds.test(i));
  }
}

TEST(TraceQuestion, APodMayBeNamed) {
  TraceOptions options;
  options.pods = {"web"};
  EXPECT_TRUE(
      understand(options)->choice.covers("/kubepods/pod11111111-2222-3333-4444-555555555555"));
}

TEST(TraceQuestion, AnAmbiguousPodNameIsRefusedWithTheCandidates) {
  KnownPods known;
  known.uid_of_name = {{"web", "uid-1"},      {"shop/web", "uid-1"}, {"web", "uid-2"},
                       {"blog/web", "uid-2"}, {"db", "uid-3"},       {"db", "uid-3"}};
  TraceOptions options;
  options.pods = {"web"};
  const auto ambiguous = understand_trace(options, known);
  ASSERT_FALSE(ambiguous.ok());
  EXPECT_EQ(ambiguous.error().message,
            "--pod: 2 pods have the name 'web'; give one of: blog/web, shop/web");
  options.pods = {"blog/web", "db"};
  EXPECT_TRUE(understand_trace(options, known).ok());
  // As the mirror pod of a static pod: only one of the two has a cgroup.
  options.pods = {"web"};
  known.uids = {"uid-2"};
  EXPECT_TRUE(understand_trace(options, known).ok());
}

TEST(TraceQuestion, AnUnknownPodIsRefusedWithTheNearestKnownOne) {
  TraceOptions options;
  options.pods = {"wbe"};
  EXPECT_EQ(understand(options).error().message,
            "--pod: no pod has the name or UID 'wbe'; did you mean 'web'? Known pods: web, "
            "22222222-2222-3333-4444-555555555555");
  const auto unknown = understand_trace(options, {});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, HasSubstr("no pods are known: give the UID"));
}

TEST(TraceQuestion, AUidOfNoPodIsAWarning) {
  TraceOptions options;
  options.pods = {"22222222-2222-3333-4444-555555555555"};
  EXPECT_TRUE(understand(options)->warnings.empty());
  options.pods = {"22222222-2222-3333-4444-555555555556"};
  const auto question = understand(options);
  ASSERT_TRUE(question.ok());
  ASSERT_EQ(question->warnings.size(), 1U);
  EXPECT_THAT(question->warnings[0],
              HasSubstr("at present; did you mean '22222222-2222-3333-4444-555555555555'?"));
  EXPECT_TRUE(question->choice.covers("/kubepods/pod22222222-2222-3333-4444-555555555556"));
}

TEST(TraceQuestion, TimesAndSizes) {
  TraceOptions options;
  options.shortest = "250us";
  options.summary = "1s";
  options.duration = "1m";
  options.buffer = "5Mi";
  const auto question = understand(options);
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question->shortest, 250us);
  EXPECT_EQ(question->summary, 1s);
  EXPECT_EQ(question->duration, 1min);
  EXPECT_EQ(question->ring_bytes, std::size_t{8} << 20) << "a power of two";
}

TEST(TraceQuestion, ColourIsForTerminalsOrOnRequest) {
  TraceOptions options;
  EXPECT_FALSE(understand(options)->color) << "a test has no terminal";
  options.color = "always";
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(understand(options)->color) << "explicitly requested";
  ::unsetenv("NO_COLOR");
  options.color = "never";
  EXPECT_FALSE(understand(options)->color);
}

}  // namespace
}  // namespace forestall::trace
