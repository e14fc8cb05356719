// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "descheduler/policy_reader.h"
#include "text/yaml_tree.h"

namespace forestall::descheduler {

// descheduler/v1alpha1 as v1alpha2: one profile for each enabled strategy. Values keep their
// positions.
[[nodiscard]] text::YamlNode translate_v1alpha1(const text::YamlNode& policy, PolicyErrors& errors);

// Builders of trees. The new nodes are at the position of `like`.
[[nodiscard]] text::YamlNode map_like(const text::YamlNode& like);
[[nodiscard]] text::YamlNode text_like(const text::YamlNode& like, std::string text,
                                       bool quoted = true);
void set_entry(text::YamlNode& map, std::string key, text::YamlNode value);
// Null if there is none.
[[nodiscard]] const text::YamlNode* entry_of(const text::YamlNode& map, std::string_view key);

}  // namespace forestall::descheduler
