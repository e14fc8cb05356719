// SPDX-License-Identifier: Apache-2.0
// Options of `forestall report`.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace forestall::cli {

enum class ReportFormat : std::uint8_t { html, md, png, json };

struct ReportOptions {
  std::string file;                          // a recording, or the directory of a ring
  std::string out;                           // empty or "-": standard output
  ReportFormat format = ReportFormat::html;  // as the name of `out` ends, unless given
  bool format_given = false;
  bool force = false;       // overwrite `out`
  unsigned workloads = 12;  // drawn by themselves
};

void add_report_options(CLI::App& command, ReportOptions& options);

}  // namespace forestall::cli
