// SPDX-License-Identifier: Apache-2.0
// Parses amounts as operators write them: kubelet's grammar for thresholds, and related ones.
// Errors contain the value and the allowed form, but not the key, which the caller adds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/threshold.h"

namespace forestall::intake {

// A value of evictionHard, as kubelet parses it (pkg/kubelet/eviction/helpers.go
// parseThresholdStatement()): a quantity above 0, or a percentage from 0 to 100. Nothing for
// exactly "0%" and "100%", which remove the threshold; "0.0%" is a threshold that is never met.
// Unlike in kubelet, "NaN%" is an error.
[[nodiscard]] Result<std::optional<Limit>> parse_threshold_limit(std::string_view text);

// A value of evictionMinimumReclaim (helpers.go parseMinimumReclaims()): a quantity of 0 or more,
// or a percentage above 0, which may exceed 100.
[[nodiscard]] Result<Limit> parse_minimum_reclaim(std::string_view text);

// A quantity of any sign.
[[nodiscard]] Result<Quantity> parse_amount(std::string_view text);
// A quantity, 0 or more.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);
// A quantity above 0.
[[nodiscard]] Result<Bytes> parse_positive_bytes(std::string_view text);

// A Go duration within the bounds, both included.
[[nodiscard]] Result<Duration> parse_duration_within(std::string_view text, Duration min,
                                                     Duration max);

// A warning about a valid but suspicious amount: "100m" is a tenth of a byte, not 100 MB.
[[nodiscard]] std::optional<std::string> doubt_amount(std::string_view text);

}  // namespace forestall::intake
