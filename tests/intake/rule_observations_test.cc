// SPDX-License-Identifier: Apache-2.0
#include "intake/rule_observations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::intake {
namespace {

// All lines; fails the test on a finding.
std::vector<ObservationLine> lines_of(RuleObservations& observations) {
  std::vector<ObservationLine> lines;
  text::Findings findings;
  while (auto line = observations.next(findings)) lines.push_back(std::move(*line));
  EXPECT_TRUE(findings.errors.empty()) << text::format(findings.errors);
  return lines;
}

std::string error_of(const std::string& text) {
  RuleObservations observations("obs.jsonl", text);
  text::Findings findings;
  while (observations.next(findings)) {
  }
  return text::format(findings.errors);
}

TEST(RuleObservations, EveryFileHasItsReading) {
  RuleObservations all("obs.jsonl",
                       "\n{\"time\": 1.5, \"host\": {\"MemTotal\": 100, \"MemFree\": 20, "
                       "\"swap\": {\"total\": 8, \"used\": 3}, \"vm.swappiness\": 60, "
                       "\"swapoutBps60\": 0.5}, \"hookSeconds\": 2, \"cgroups\": {\"/a/b\": {"
                       "\"memory.current\": 5, \"memory.max\": \"max\", \"memory.high\": 4096, "
                       "\"memory.stat\": {\"pgscan\": 7, \"anon\": 3, \"file\": 1}, "
                       "\"memory.pressure\": {\"full\": {\"avg10\": 60.5, \"avg60\": 1, "
                       "\"avg300\": 2, \"total\": 9}}, \"io.stat\": {\"8:0\": {\"rbytes\": 4}}, "
                       "\"cgroup.stat\": {\"nr_dying_descendants\": 2}, \"memory.oom.group\": 1, "
                       "\"populated\": 0, \"xattrs\": {\"user.oomd_avoid\": \"1\"}, "
                       "\"uid\": 1000}}}\n");
  const auto lines = lines_of(all);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].line, 2U);
  const rulesets::RuleObservation& observed = lines[0].observation;
  EXPECT_EQ(observed.time, std::chrono::milliseconds(1500));
  EXPECT_EQ(lines[0].hook_duration, std::chrono::seconds(2));
  EXPECT_EQ(observed.host.mem_available, std::nullopt);
  EXPECT_EQ(observed.host.swaps_used, 3);
  EXPECT_EQ(observed.host.swappiness, 60);
  ASSERT_NE(observed.find("/a"), nullptr);  // the parent exists, without readings
  EXPECT_EQ(observed.find("/a")->current, std::nullopt);
  const rulesets::Cgroup& b = *observed.find("/a/b");
  EXPECT_EQ(b.max, rulesets::kNoLimit);
  EXPECT_EQ(b.stat->pgscan, 7);
  EXPECT_FLOAT_EQ(b.memory_pressure->full->avg10, 60.5F);
  EXPECT_EQ(b.memory_pressure->some, std::nullopt);
  EXPECT_EQ(b.io->at(0).rbytes, 4);
  EXPECT_EQ(b.dying_descendants, 2);
  EXPECT_EQ(b.oom_group, true);
  EXPECT_EQ(b.populated, false);
  EXPECT_EQ(*b.xattr("user.oomd_avoid"), "1");
  EXPECT_EQ(b.uid, 1000U);
}

TEST(RuleObservations, WhatALineLeavesOutRemainsAndNullIsGone) {
  RuleObservations observations(
      "obs.jsonl",
      "{\"time\": 1, \"cgroups\": {\"/a/b\": {\"memory.current\": 5}, \"/c\": {}}}\n"
      "{\"time\": 2, \"cgroups\": {\"/a/b\": {\"memory.min\": 1}}}\n"
      "{\"time\": 3, \"cgroups\": {\"/a\": null}}\n"
      "{\"time\": 4, \"cgroups\": {\"/a/b\": {\"memory.current\": 6}, \"/c\": null}}\n");
  const auto lines = lines_of(observations);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1].observation.find("/a/b")->current, 5);
  EXPECT_EQ(lines[2].observation.find("/a/b"), nullptr);
  EXPECT_EQ(lines[3].observation.find("/c"), nullptr);
  EXPECT_EQ(lines[3].observation.find("/a/b")->min, std::nullopt);
  EXPECT_NE(lines[3].observation.find("/a/b")->id, lines[0].observation.find("/a/b")->id);
}

TEST(RuleObservations, PathsMayLackTheFirstSlash) {
  RuleObservations observations("obs.jsonl",
                                "{\"time\": 1, \"cgroups\": {\"a/b\": {}, \"/\": {}}}");
  const auto lines = lines_of(observations);
  ASSERT_NE(lines.at(0).observation.find("/a/b"), nullptr);
  EXPECT_EQ(observations.shown("/a/b"), "a/b");
  EXPECT_EQ(observations.shown("/"), "/");
}

TEST(RuleObservations, AnswersOfKillsAndWritesAreRemembered) {
  RuleObservations observations(
      "obs.jsonl",
      "{\"time\": 1, \"cgroups\": {\"/a\": {\"kill\": \"ok\"}, \"/b\": {\"kill\": \"fails\"}, "
      "\"/c\": {\"memory.reclaim\": \"EAGAIN\"}}}\n{\"time\": 2}\n"
      "{\"time\": 3, \"cgroups\": {\"/c\": {\"memory.high\": 8192}}}");
  text::Findings findings;
  const auto first = observations.next(findings);
  ASSERT_TRUE(first);
  EXPECT_TRUE(observations.kill("/a"));
  EXPECT_FALSE(observations.kill("/a"));
  EXPECT_FALSE(observations.kill("/b"));
  EXPECT_TRUE(observations.kill("/c"));
  EXPECT_TRUE(observations.kill("/c"));
  EXPECT_FALSE(observations.kill("/gone"));
  EXPECT_TRUE(first->observation.find("/c")->has_reclaim);
  observations.wrote("/c", "memory.high", 4096);
  EXPECT_EQ(observations.next(findings)->observation.find("/c")->high, 4096);
  EXPECT_EQ(observations.next(findings)->observation.find("/c")->high, 8192);
}

TEST(RuleObservations, DropInsAndMessagesArePassedOn) {
  RuleObservations observations(
      "obs.jsonl",
      "{\"time\": 1, \"dropIns\": {\"a.json\": \"{}\", \"b.json\": null}, \"managedOom\": [{}]}");
  const auto lines = lines_of(observations);
  ASSERT_EQ(lines.at(0).drop_ins.size(), 2U);
  EXPECT_EQ(lines[0].drop_ins[0].text, "{}");
  EXPECT_EQ(lines[0].drop_ins[1].text, std::nullopt);
  EXPECT_EQ(lines[0].managed_oom->items.size(), 1U);
}

TEST(RuleObservations, MistakesHaveTheirPosition) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"time\": 2}\n{\"time\": 1}",
       "obs.jsonl:2:10: 'time' is before that of the previous line"},
      {"{\"tim\": 1}", "obs.jsonl:1:2: unknown key 'tim'; did you mean 'time'?"},
      {"{}", "obs.jsonl:1:1: 'time' is missing"},
      {"{\"time\": -1}", "obs.jsonl:1:10: 'time': expected seconds from 0, found -1"},
      {"{\"time\": 1, \"cgroups\": {\"/a/\": {}}}",
       "obs.jsonl:1:25: '/a/' is no path of a cgroup, such as /a/b"},
      {"{\"time\": 1, \"cgroups\": {\"/a\": {\"memory.current\": \"max\"}}}",
       "obs.jsonl:1:50: 'memory.current': expected a whole number, found 'max'"},
      {"{\"time\": 1, \"cgroups\": {\"/a\": {\"kill\": \"maybe\"}}}",
       "obs.jsonl:1:40: 'kill': expected one of: ok, fails, found 'maybe'"},
      {"{\"time\": 1, \"host\": {\"MemTotl\": 1}}",
       "obs.jsonl:1:22: unknown key 'MemTotl'; did you mean 'MemTotal'?"},
      {"[]", "obs.jsonl:1:1: expected an object, found a list"}};
  for (const auto& [text, problem] : cases) EXPECT_EQ(error_of(text), problem) << text;
}

}  // namespace
}  // namespace forestall::intake
