// SPDX-License-Identifier: Apache-2.0
// The generic reader, apart from what the tables of configurations cover.
#include "messages/yaml_message.h"

#include <gtest/gtest.h>

#include "forestall/v1/config.pb.h"
#include "forestall/v1/record.pb.h"

namespace forestall::test {
namespace {

using text::Position;

TEST(YamlMessage, RemembersPlaces) {
  v1::Config message;
  std::vector<text::Diagnostic> problems;
  const messages::FieldPositions places = messages::read_yaml(
      "pods:\n"
      "  cgroupRoot: /a\n"
      "evictionHard: {memory.available: 5%}\n"
      "watch:\n"
      "  - available: 1Mi\n"
      "disableFeatures: [bpf, 'poll']\n",
      message, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(places.key("pods.cgroupRoot"), (text::Position{2, 3}));
  EXPECT_EQ(places.value("pods.cgroupRoot"), (text::Position{2, 15}));
  EXPECT_EQ(places.key("evictionHard[memory.available]"), (text::Position{3, 16}));
  EXPECT_EQ(places.value("watch[0]"), (text::Position{5, 5}));
  EXPECT_EQ(places.value("watch[0].available"), (text::Position{5, 16}));
  EXPECT_EQ(places.value("disableFeatures[1]"), (text::Position{6, 24}));
  EXPECT_TRUE(places.has("evictionHard"));
  EXPECT_FALSE(places.has("evictionMinimumReclaim"));
  // The error for a missing value points to the enclosing element.
  EXPECT_EQ(places.key("pods.enabled"), (text::Position{1, 1}));
  EXPECT_EQ(places.value("watch[0].cgroup"), (text::Position{5, 5}));
  EXPECT_EQ(places.key("workloads[3].name"), (text::Position{1, 1}));
  EXPECT_EQ(places.key("no]such"), (text::Position{1, 1}));
  EXPECT_EQ(places.key("no]"), (text::Position{1, 1}));
}

TEST(YamlMessage, EmptyIsPresent) {
  v1::Config message;
  std::vector<text::Diagnostic> problems;
  const messages::FieldPositions places =
      messages::read_yaml("evictionHard: {}\nwatch: []\npods: {}", message, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_TRUE(places.has("evictionHard"));
  EXPECT_TRUE(places.has("watch"));
  EXPECT_TRUE(message.has_pods());
  EXPECT_FALSE(message.pods().has_enabled());
}

TEST(YamlMessage, IntegersOfEveryWidth) {
  v1::Attempt attempt;
  std::vector<text::Diagnostic> problems;
  (void)messages::read_yaml(
      "{atNs: -9223372036854775808, processes: 4294967295, failure: {code: -5}}", attempt,
      problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(attempt.at_ns(), INT64_MIN);
  EXPECT_EQ(attempt.processes(), UINT32_MAX);
  EXPECT_EQ(attempt.failure().code(), -5);
  (void)messages::read_yaml("{atNs: 9223372036854775808, processes: -1}", attempt, problems);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].message,
            "'atNs' must be a whole number from -9223372036854775808 to 9223372036854775807, found "
            "'9223372036854775808'");
  EXPECT_EQ(problems[1].message,
            "'processes' must be a whole number from 0 to 4294967295, found '-1'");
}

TEST(NearestWord, FindsMisspellings) {
  const std::vector<std::string> allowed{"evictionHard", "evictionMinimumReclaim", "pods", "watch"};
  EXPECT_EQ(messages::nearest_word("evictonHard", allowed), "evictionHard");
  EXPECT_EQ(messages::nearest_word("EVICTIONHARD", allowed), "evictionHard");
  EXPECT_EQ(messages::nearest_word("pod", allowed), "pods");
  EXPECT_EQ(messages::nearest_word("wacht", allowed), std::nullopt);  // two of five
  EXPECT_EQ(messages::nearest_word("evictionSoft", allowed), std::nullopt);
  EXPECT_EQ(messages::nearest_word("", allowed), std::nullopt);
  EXPECT_EQ(messages::nearest_word(std::string(1000, 'p'), allowed), std::nullopt);
}

}  // namespace
}  // namespace forestall::test
