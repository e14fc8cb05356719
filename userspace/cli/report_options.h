// SPDX-License-Identifier: Apache-2.0
// Options of `forestall report`.
#pragma once

#include <cstdint>
#include <string>

namespace forestall::cli {

enum class ReportFormat : std::uint8_t { html, md, png, json };

struct ReportOptions {
  std::string file;                          // a recording, or a directory of segments
  std::string out;                           // empty or "-": standard output
  ReportFormat format = ReportFormat::html;  // by the suffix of `out`, unless `format_given`
  bool format_given = false;
  bool force = false;       // overwrite `out`
  unsigned workloads = 12;  // workloads drawn individually
};

}  // namespace forestall::cli
