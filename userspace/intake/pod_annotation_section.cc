// SPDX-License-Identifier: Apache-2.0
#include "intake/pod_annotation_section.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace forestall::intake {
namespace {

using Namespaces = google::protobuf::RepeatedPtrField<std::string>;

constexpr int kNamespacesMax = 256;
// apimachinery's IsDNS1123Label().
constexpr std::size_t kNameMax = 63;

bool is_name_or_glob(std::string_view text) {
  const auto may_contain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '*' || c == '?';
  };
  return !text.empty() && text.size() <= kNameMax && std::ranges::all_of(text, may_contain);
}

std::vector<std::string> check_namespaces(const Namespaces& given, const std::string& key,
                                          Report& report) {
  const std::string path = "podAnnotations." + key;
  if (given.size() > kNamespacesMax) {
    report.error(path, "'" + key + "' has " + std::to_string(given.size()) + " items; at most " +
                           std::to_string(kNamespacesMax) + " are allowed");
  }
  std::vector<std::string> namespaces;
  for (int i = 0; i < given.size(); ++i) {
    if (!is_name_or_glob(given[i])) {
      report.error(path + "[" + std::to_string(i) + "]",
                   "'" + key + "' must list namespaces, such as payments or team-*, found '" +
                       given[i] + "'");
    }
    namespaces.push_back(given[i]);
  }
  return namespaces;
}

}  // namespace

PodAnnotationPolicy check_pod_annotations(const v1::Config& given, Report& report) {
  const v1::PodAnnotationPolicy& policy = given.pod_annotations();
  PodAnnotationPolicy out;
  out.is_protected = check_namespaces(policy.protected_(), "protected", report);
  out.prefer = check_namespaces(policy.prefer(), "prefer", report);
  out.avoid = check_namespaces(policy.avoid(), "avoid", report);
  if (out != PodAnnotationPolicy{} && given.pods().has_enabled() && !given.pods().enabled()) {
    report.warn_at_key("podAnnotations", "has no effect: 'pods.enabled' is false");
  }
  return out;
}

}  // namespace forestall::intake
