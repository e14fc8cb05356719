// SPDX-License-Identifier: Apache-2.0
#include "offline/trace_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temp_tree.h"

namespace forestall::cli::test {
namespace {

TEST(TraceStates, NamesBeginWithATimeOfAZoneOrUnixSeconds) {
  constexpr std::int64_t kNoon = 1'767'268'800'000'000'000;
  for (const char* const name :
       {"2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z.json", "2026-01-01T12:00:00z-pods.json",
        "2026-01-01T13:00:00+01:00_a", "2026-01-01T12:00:00.0Z", "1767268800", "1767268800.json"}) {
    EXPECT_EQ(time_of_name(name), kNoon) << name;
  }
  for (const char* const name :
       {"", "pods.json", "2026-01-01", "2026-01-01T12:00:00", "2026-01-01T12:00:00.json",
        "2026-01-01T12:00:00Zjson", "2026-13-01T12:00:00Z", "17672688001234.json", "1767268800s",
        "2026-01-01T12:00:00+01", "2026"}) {
    EXPECT_EQ(time_of_name(name), std::nullopt) << name;
  }
}

TEST(TraceStates, FilesOfOneTimeAreOneStateInTheOrderOfTheirTimes) {
  const forestall::test::TempTree tree{{"2026-01-01T00:00:00Z-b.json", ""},
                                       {"2026-01-01T00:00:00Z-a.json", ""},
                                       {"2026-01-01T01:05:00+01:00/nodes.json", ""},
                                       {"1767225000", ""},
                                       {".partial", ""}};
  text::Findings findings;
  const auto states = list_states({tree.path().string() + "/"}, 0, findings);
  EXPECT_EQ(text::format(findings.errors), "");
  ASSERT_EQ(states.size(), 3U);
  EXPECT_THAT(states[0].files, testing::ElementsAre(tree / "1767225000"));
  EXPECT_THAT(states[1].files, testing::ElementsAre(tree / "2026-01-01T00:00:00Z-a.json",
                                                    tree / "2026-01-01T00:00:00Z-b.json"));
  EXPECT_THAT(states[2].files, testing::ElementsAre(tree / "2026-01-01T01:05:00+01:00/nodes.json"));
}

TEST(TraceStates, TheUsualGapIsTheMedian) {
  const auto gap_of = [](const std::vector<std::int64_t>& times) {
    std::vector<RecordedState> states;
    for (const std::int64_t each : times) states.push_back({each, {}});
    return usual_gap_of(states);
  };
  EXPECT_EQ(gap_of({}), 0);
  EXPECT_EQ(gap_of({7}), 0);
  EXPECT_EQ(gap_of({0, 299, 601, 900, 5000}), 299);
}

TEST(TraceStates, RefusesWhatIsNotARegularFile) {
  const forestall::test::TempTree tree{{"trace/2026-01-01T00:00:00Z.json", ""},
                                       {"trace/2026-01-01T00:05:00Z/more/nodes.json", ""}};
  const std::string fifo = tree / "trace/2026-01-01T00:10:00Z.json";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  text::Findings findings;
  (void)list_states({tree / "trace"}, 0, findings);
  const std::string problems = text::format(findings.errors);
  EXPECT_THAT(problems, testing::HasSubstr("00:05:00Z/more: is not a regular file"));
  EXPECT_THAT(problems, testing::HasSubstr("00:10:00Z.json: is not a regular file"));
}

TEST(TraceStates, ALinkToAFileIsAFile) {
  const forestall::test::TempTree tree{{"objects", ""}, {"trace/2026-01-01T00:00:00Z.json", ""}};
  const std::string link = tree / "trace/2026-01-01T00:05:00Z.json";
  ASSERT_EQ(::symlink((tree / "objects").c_str(), link.c_str()), 0);
  text::Findings findings;
  EXPECT_EQ(list_states({tree / "trace"}, 0, findings).size(), 2U);
  EXPECT_EQ(text::format(findings.errors), "");
}

}  // namespace
}  // namespace forestall::cli::test
