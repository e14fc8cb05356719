// SPDX-License-Identifier: Apache-2.0
// The eviction order as a table; its columns depend on the resource.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/signal.h"

namespace forestall::tables {

// "1.2 GiB" for a resource in bytes, otherwise "1200".
[[nodiscard]] std::string amount_text(Resource resource, std::int64_t amount);

// The declared priority or request; nothing: not declared, which ranks as 0. For inodes and
// ephemeral storage it is the request for ephemeral storage.
[[nodiscard]] std::optional<std::int32_t> priority_of(const Workload& workload);
[[nodiscard]] std::optional<Bytes> request_of(const Candidate& candidate, Resource resource);

// Which candidates of an order are shown. The numbers of the others are not given to any.
struct OrderRows {
  std::size_t limit = SIZE_MAX;
  bool with_empty = true;  // those without processes
};

// One row per candidate: `describe`, the compared values, and which value ranks it before the next
// one or why it is protected. `ranking` selects the comparators. For memory, growth is shown if it
// is compared or known for any candidate.
[[nodiscard]] std::string order_text(const std::vector<Candidate>& order, Resource resource,
                                     const std::vector<std::string>& headings,
                                     std::vector<std::string> (*describe)(const Workload&),
                                     Ranking ranking = Ranking::kubelet, OrderRows rows = {});

// Why a workload is protected; empty: it may be killed.
[[nodiscard]] std::string protection_reason(const Workload& workload);

}  // namespace forestall::tables
