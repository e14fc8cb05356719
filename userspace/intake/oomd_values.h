// SPDX-License-Identifier: Apache-2.0
// The values of oomd's arguments: numbers, sizes and text.
//
// oomd turns every argument into text and parses its beginning. A value with more text than oomd
// would use is refused here, and the message has oomd's reading.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/ruleset.h"
#include "text/json_tree.h"

namespace forestall::intake {

// A whole number of 32 bits: blanks, a sign, digits. The error has oomd's reading, if it has one.
[[nodiscard]] Result<std::int64_t> parse_oomd_int(std::string_view text);
// The grammar of sizes: "10%", "100" (MiB), "1.5G", "1G 512M"; a number with a fraction and without
// a unit is bytes.
[[nodiscard]] Result<rulesets::SizeOrPercent> parse_oomd_size(std::string_view text);
// The text that oomd makes of a value; nothing for lists, objects and null.
[[nodiscard]] std::optional<std::string> oomd_text(const text::JsonNode& node);

}  // namespace forestall::intake
