// SPDX-License-Identifier: Apache-2.0
#include "sources/pod_annotations.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "kernel/cgroup_tree.h"

namespace forestall::sources {
namespace {

constexpr std::string_view kProtected = "protected";
constexpr std::string_view kPrefer = "prefer";
constexpr std::string_view kAvoid = "avoid";

class AnnotationReader {
 public:
  AnnotationReader(const Pod& pod, PodAnnotationFacts& facts) : pod_(pod), facts_(facts) {}

  // Whether it is set and permitted.
  bool read(std::string_view annotation, const std::optional<std::string>& value,
            const std::vector<std::string>& namespaces) {
    if (!value || *value == "false") return false;
    const bool is_permitted = std::ranges::any_of(namespaces, [&](const std::string& each) {
      return kernel::glob_matches(each, pod_.pod_namespace);
    });
    if (!is_permitted) {
      refuse(annotation, *value, "podAnnotations does not permit it in this namespace");
    } else if (*value != "true") {
      refuse(annotation, *value, "the value must be true or false");
    }
    return is_permitted && *value == "true";
  }
  void refuse(std::string_view annotation, const std::string& value, std::string_view problem) {
    facts_.problems.push_back({pod_.pod_namespace + "/" + pod_.name, annotation, value, problem});
  }

 private:
  const Pod& pod_;
  PodAnnotationFacts& facts_;
};

}  // namespace

PodAnnotationFacts annotation_facts(const Pod& pod, const PodAnnotationPolicy& policy) {
  PodAnnotationFacts facts;
  const PodAnnotations& given = pod.annotations;
  if (given == PodAnnotations{}) return facts;
  AnnotationReader reader(pod, facts);
  facts.is_protected = reader.read(kProtected, given.is_protected, policy.is_protected);
  const bool prefers = reader.read(kPrefer, given.prefer, policy.prefer);
  const bool avoids = reader.read(kAvoid, given.avoid, policy.avoid);
  if (prefers && facts.is_protected) {
    reader.refuse(kPrefer, *given.prefer, "the pod is protected");
  } else if (prefers && avoids) {
    reader.refuse(kPrefer, *given.prefer, "avoid is true as well: neither has an effect");
    reader.refuse(kAvoid, *given.avoid, "prefer is true as well: neither has an effect");
  } else if (prefers || avoids) {
    facts.preference = prefers ? Preference::prefer : Preference::avoid;
  }
  return facts;
}

void apply_annotations(const PodAnnotationPolicy& policy, Workload& workload) {
  if (!workload.pod) return;
  const PodAnnotationFacts facts = annotation_facts(*workload.pod, policy);
  workload.preference = facts.preference;
  if (facts.is_protected && workload.protection == Protection::none) {
    workload.protection = Protection::annotated;
  }
}

}  // namespace forestall::sources
