// SPDX-License-Identifier: Apache-2.0
// Options of `forestall report`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forestall::cli {

enum class ReportFormat : std::uint8_t { html, md, png, json };
// The words for them, in the same order.
[[nodiscard]] inline const std::vector<std::string>& report_formats() {
  static const std::vector<std::string> words{"html", "md", "png", "json"};
  return words;
}

struct ReportOptions {
  std::string file;  // a recording, or a directory of segments
  // Empty or "-": standard output. The word of a format: in that format to standard output.
  std::string out;
  std::optional<ReportFormat> format = std::nullopt;  // nothing: by `out`
  bool force = false;                                 // overwrite `out`
  unsigned workloads = 12;                            // workloads drawn individually
};

}  // namespace forestall::cli
