// SPDX-License-Identifier: Apache-2.0
// The annotations forestall.dev/protected, prefer and avoid of pods, and where they may be set.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forestall {

// As they are written. Nullopt: the pod does not have it.
struct PodAnnotations {
  // Of each value, in bytes. The only values with a meaning are shorter.
  static constexpr std::size_t kValueMax = 16;

  std::optional<std::string> is_protected;
  std::optional<std::string> prefer;
  std::optional<std::string> avoid;

  friend bool operator==(const PodAnnotations&, const PodAnnotations&) = default;
};

// The namespaces whose pods may have each annotation: names, or globs with `*` and `?`. Empty: it
// is honoured nowhere.
struct PodAnnotationPolicy {
  std::vector<std::string> is_protected;
  std::vector<std::string> prefer;
  std::vector<std::string> avoid;

  friend bool operator==(const PodAnnotationPolicy&, const PodAnnotationPolicy&) = default;
};

// An annotation that has no effect.
struct PodAnnotationProblem {
  std::string pod;              // "namespace/name"
  std::string_view annotation;  // "protected", "prefer" or "avoid"
  std::string value;
  std::string_view problem;

  friend bool operator==(const PodAnnotationProblem&, const PodAnnotationProblem&) = default;
};

}  // namespace forestall
