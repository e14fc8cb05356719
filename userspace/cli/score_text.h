// SPDX-License-Identifier: Apache-2.0
// Text of `forestall score`, as a pure function of what was read.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "forestall/v1/report.pb.h"
#include "model/oom.h"
#include "tables/process_text.h"

namespace forestall::cli {

struct ScoreView {
  OomScene scene;                  // of the node
  std::optional<Bytes> memory;     // MemTotal
  std::optional<Bytes> swap;       // SwapTotal
  std::vector<std::size_t> shown;  // processes of the scene, in the order shown
  std::size_t processes = 0;       // number of processes without kernel threads
  std::size_t choosable = 0;       // number of eligible processes
  // The processes were requested by pid: each is shown with all parts of its score.
  bool by_pid = false;
  tables::ProcessReading reading;
};

[[nodiscard]] std::string score_text(const ScoreView& view, const tables::ProcessShow& show);
[[nodiscard]] v1::ScoreReport to_report(const ScoreView& view, const tables::ProcessShow& show);

}  // namespace forestall::cli
