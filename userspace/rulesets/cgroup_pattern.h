// SPDX-License-Identifier: Apache-2.0
// Which cgroups a rule is about.
#pragma once

#include <string_view>
#include <vector>

#include "model/rule_observation.h"
#include "model/ruleset.h"

namespace forestall::rulesets {

// Splits a list of paths at commas and each path at slashes; empty components are dropped, so "/"
// is the root. The empty text is no cgroup at all.
[[nodiscard]] CgroupPatterns parse_cgroup_patterns(std::string_view text);

// Whether the whole of `name` matches: '*', '?' and bracket expressions; a leading dot only matches
// a dot; a pair of braces around text stands for the text.
[[nodiscard]] bool component_matches(std::string_view pattern, std::string_view name);

// The matching cgroups, each once, sorted by path.
[[nodiscard]] std::vector<const Cgroup*> matching(const CgroupPatterns& patterns,
                                                  const RuleObservation& observed);

// The rule of prekill hooks: as far as the shorter of path and pattern goes, each component is
// equal or the pattern's is "*". So ancestors and descendants match as well.
[[nodiscard]] bool hook_matches(const CgroupPatterns& patterns, std::string_view path);

}  // namespace forestall::rulesets
