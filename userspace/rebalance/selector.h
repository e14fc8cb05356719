// SPDX-License-Identifier: Apache-2.0
// Label selectors and node selector terms of Kubernetes
// (apimachinery/pkg/labels/selector.go, component-helpers/scheduling/corev1/nodeaffinity).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace forestall::rebalance {

// Sorted by key, each key once. The texts are kept elsewhere.
using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

// Nothing if there is no such label.
[[nodiscard]] std::optional<std::string_view> find_label(const Labels& labels,
                                                         std::string_view key);

enum class Operator : std::uint8_t {
  in,
  not_in,
  exists,
  does_not_exist,
  greater_than,
  less_than,
};

// "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt".
[[nodiscard]] std::optional<Operator> parse_operator(std::string_view word);
[[nodiscard]] std::string_view to_string(Operator each);

struct Requirement {
  std::string key;
  Operator op = Operator::exists;
  std::vector<std::string> values;

  friend bool operator==(const Requirement&, const Requirement&) = default;
};

// A label that does not exist fulfils only not_in and does_not_exist. A comparison needs whole
// numbers on both sides.
[[nodiscard]] bool matches(const Requirement& requirement, const Labels& labels);

// Why NewRequirement of apimachinery refuses it; nothing if it is valid.
[[nodiscard]] std::optional<std::string> problem_of(const Requirement& requirement);

// All requirements must hold; without any, everything matches.
struct LabelSelector {
  std::vector<Requirement> requirements;

  [[nodiscard]] bool empty() const { return requirements.empty(); }
  friend bool operator==(const LabelSelector&, const LabelSelector&) = default;
};

[[nodiscard]] bool matches(const LabelSelector& selector, const Labels& labels);

// "a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2".
[[nodiscard]] Result<LabelSelector> parse_selector(std::string_view text);

// A term of a node affinity: expressions on labels, and on the field metadata.name.
struct NodeSelectorTerm {
  std::vector<Requirement> expressions;
  std::vector<Requirement> fields;

  friend bool operator==(const NodeSelectorTerm&, const NodeSelectorTerm&) = default;
};

// An empty term matches nothing, and so does one with an invalid requirement.
[[nodiscard]] bool matches(const NodeSelectorTerm& term, std::string_view node_name,
                           const Labels& labels);

}  // namespace forestall::rebalance
