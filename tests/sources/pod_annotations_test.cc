// SPDX-License-Identifier: Apache-2.0
// Which annotations of a pod count: by namespace, value and combination.
#include "sources/pod_annotations.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace forestall::sources {
namespace {

struct AnnotationCase {
  std::string name;
  PodAnnotations given;
  bool is_protected = false;
  Preference preference = Preference::normal;
  std::vector<std::string> problems;  // "annotation: problem"
};

Pod pod_in(const std::string& space, const PodAnnotations& annotations) {
  Pod pod;
  pod.name = "front";
  pod.pod_namespace = space;
  pod.annotations = annotations;
  return pod;
}

std::vector<std::string> problems_of(const PodAnnotationFacts& facts) {
  std::vector<std::string> problems;
  for (const PodAnnotationProblem& each : facts.problems) {
    EXPECT_EQ(each.pod, "shop/front");
    problems.push_back(std::string(each.annotation) + ": " + std::string(each.problem));
  }
  return problems;
}

const PodAnnotationPolicy kEverywhere{{"*"}, {"*"}, {"*"}};

TEST(PodAnnotations, CountByValueAndCombination) {
  const std::string value = "the value must be true or false";
  const std::vector<AnnotationCase> cases{
      {"none", {}, false, Preference::normal, {}},
      {"protected",
       {.is_protected = "true", .prefer = {}, .avoid = {}},
       true,
       Preference::normal,
       {}},
      {"prefer",
       {.is_protected = {}, .prefer = "true", .avoid = {}},
       false,
       Preference::prefer,
       {}},
      {"avoid", {.is_protected = {}, .prefer = {}, .avoid = "true"}, false, Preference::avoid, {}},
      {"false is as if absent",
       {.is_protected = "false", .prefer = "false", .avoid = "true"},
       false,
       Preference::avoid,
       {}},
      {"no other value counts",
       {.is_protected = "True", .prefer = "yes", .avoid = ""},
       false,
       Preference::normal,
       {"protected: " + value, "prefer: " + value, "avoid: " + value}},
      {"a longer value that begins with true",
       {.is_protected = "true            ", .prefer = {}, .avoid = {}},
       false,
       Preference::normal,
       {"protected: " + value}},
      {"prefer and avoid",
       {.is_protected = {}, .prefer = "true", .avoid = "true"},
       false,
       Preference::normal,
       {"prefer: avoid is true as well: neither has an effect",
        "avoid: prefer is true as well: neither has an effect"}},
      {"prefer of a protected pod",
       {.is_protected = "true", .prefer = "true", .avoid = {}},
       true,
       Preference::normal,
       {"prefer: the pod is protected"}},
      {"avoid of a protected pod",
       {.is_protected = "true", .prefer = {}, .avoid = "true"},
       true,
       Preference::avoid,
       {}}};
  for (const AnnotationCase& each : cases) {
    SCOPED_TRACE(each.name);
    const auto facts = annotation_facts(pod_in("shop", each.given), kEverywhere);
    EXPECT_EQ(facts.is_protected, each.is_protected);
    EXPECT_EQ(facts.preference, each.preference);
    EXPECT_EQ(problems_of(facts), each.problems);
  }
}

TEST(PodAnnotations, CountOnlyWhereThePolicyPermitsThem) {
  const PodAnnotations all{.is_protected = "true", .prefer = {}, .avoid = "true"};
  const std::string refused = "podAnnotations does not permit it in this namespace";
  const auto by_default = annotation_facts(pod_in("shop", all), {});
  EXPECT_FALSE(by_default.is_protected);
  EXPECT_EQ(by_default.preference, Preference::normal);
  EXPECT_EQ(problems_of(by_default),
            (std::vector<std::string>{"protected: " + refused, "avoid: " + refused}));
  const auto one = annotation_facts(pod_in("shop", all), {{"shop"}, {"shop"}, {"other", "shop2"}});
  EXPECT_TRUE(one.is_protected);
  EXPECT_EQ(one.preference, Preference::normal);
  EXPECT_EQ(problems_of(one), (std::vector<std::string>{"avoid: " + refused}));
}

TEST(PodAnnotations, AGlobMatchesTheWholeNamespace) {
  const PodAnnotations marked{.is_protected = "true", .prefer = {}, .avoid = {}};
  const auto counts = [&](const std::string& space, const std::string& glob) {
    return annotation_facts(pod_in(space, marked), {{glob}, {}, {}}).is_protected;
  };
  EXPECT_TRUE(counts("team-a", "team-*"));
  EXPECT_TRUE(counts("team-a", "team-?"));
  EXPECT_TRUE(counts("kube-system", "*"));
  EXPECT_FALSE(counts("team-ab", "team-?"));
  EXPECT_FALSE(counts("my-team-a", "team-*"));
  EXPECT_FALSE(counts("", "team-*"));
}

// A prefer that is not permitted does not take avoid's effect away.
TEST(PodAnnotations, OneThatIsNotPermittedDoesNotCountAgainstAnother) {
  const PodAnnotations both{.is_protected = {}, .prefer = "true", .avoid = "true"};
  EXPECT_EQ(annotation_facts(pod_in("shop", both), {{}, {}, {"shop"}}).preference,
            Preference::avoid);
}

}  // namespace
}  // namespace forestall::sources
