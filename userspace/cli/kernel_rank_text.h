// SPDX-License-Identifier: Apache-2.0
// Text of `forestall rank --kernel`, as a pure function of what was read and predicted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "forestall/v1/report.pb.h"
#include "model/oom.h"
#include "tables/process_text.h"

namespace forestall::cli {

struct KernelRankView {
  OomScene scene;
  OomPrediction prediction;
  // If processes tie for the most points: whether the kernel's order of them is known.
  std::optional<bool> tie_order_known;
  std::vector<OomChoice> order;  // eligible processes, the first choice first
  tables::ProcessReading reading;
};

// Includes the first ten processes of the order.
[[nodiscard]] std::string kernel_rank_text(const KernelRankView& view,
                                           const tables::ProcessShow& show);
[[nodiscard]] v1::KernelRankReport to_report(const KernelRankView& view,
                                             const tables::ProcessShow& show);

// "0-1,3".
[[nodiscard]] std::string node_list(NodeMask nodes);

}  // namespace forestall::cli
