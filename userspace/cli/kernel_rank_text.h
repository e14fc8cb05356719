// SPDX-License-Identifier: Apache-2.0
// What `forestall rank --kernel` shows, as a pure function of what it read and predicted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/process_text.h"
#include "forestall/v1/report.pb.h"
#include "model/oom.h"

namespace forestall::cli {

struct KernelRankView {
  OomScene scene;
  OomPrediction prediction;
  // Of those that tie for the most points, whether the kernel's own order is known; nothing: no
  // two do.
  std::optional<bool> tie_order_known;
  std::vector<OomChoice> order;  // who can be chosen, the first choice first
  ProcessReading reading;
};

// With the ten that come first.
[[nodiscard]] std::string kernel_rank_text(const KernelRankView& view, const ProcessShow& show);
[[nodiscard]] v1::KernelRankReport to_report(const KernelRankView& view, const ProcessShow& show);

// "0-1,3".
[[nodiscard]] std::string node_list(NodeMask nodes);

}  // namespace forestall::cli
