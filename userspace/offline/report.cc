// SPDX-License-Identifier: Apache-2.0
// `forestall report`: renders a recording as a page, Markdown, PNG or JSON.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/report_options.h"
#include "messages/json.h"
#include "offline/commands.h"
#include "offline/output_file.h"
#include "offline/plot_process.h"
#include "offline/recording_picture.h"
#include "offline/report_text.h"
#include "page/report_page.h"

namespace forestall::cli {
namespace {

std::optional<ReportFormat> format_named(std::string_view word) {
  const auto& words = report_formats();
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return std::nullopt;
  return static_cast<ReportFormat>(found - words.begin());
}

// By the suffix of the output file, else html.
ReportFormat format_of(const ReportOptions& options) {
  if (options.format) return *options.format;
  const std::size_t dot = options.out.rfind('.');
  if (dot == std::string::npos) return ReportFormat::html;
  return format_named(std::string_view(options.out).substr(dot + 1)).value_or(ReportFormat::html);
}

// `-o json` as in other subcommands: the format of standard output.
Result<ReportOptions> resolved(ReportOptions options) {
  const auto named = format_named(options.out);
  if (!named) return options;
  if (options.format && options.format != named) {
    return error(fmt::format(
        "-o {} and --format {} contradict each other; for a file, write -o "
        "./{}",
        options.out, report_formats()[static_cast<std::size_t>(*options.format)], options.out));
  }
  options.format = named;
  options.out.clear();
  return options;
}

Result<std::string> rendered(const internal::Picture& picture, ReportFormat format) {
  switch (format) {
    case ReportFormat::html:
      return page::report_page(messages::to_json(picture, messages::JsonStyle::line));
    case ReportFormat::md: return report_text(picture);
    case ReportFormat::png: return plotted(picture);
    case ReportFormat::json: return messages::to_json(picture, messages::JsonStyle::pretty);
  }
  return error("unknown format");
}

}  // namespace

int run_report(const ReportOptions& given) {
  const auto resolved_options = resolved(given);
  if (!resolved_options) return fail("report", resolved_options.error(), kExitUsage);
  const ReportOptions& options = *resolved_options;
  const bool to_standard = options.out.empty() || options.out == "-";
  const ReportFormat format = format_of(options);
  if (to_standard && format == ReportFormat::png && ::isatty(STDOUT_FILENO) == 1) {
    return fail("report", error("PNG cannot be shown on a terminal: set a file with -o"),
                kExitUsage);
  }
  const Error there = error(options.out + " exists; --force overwrites it");
  // Checked before the recording is read, which takes time. write_file() checks again.
  if (!to_standard && !options.force && ::access(options.out.c_str(), F_OK) == 0) {
    return fail("report", there, kExitUsage);
  }
  picture::Bounds bounds;
  bounds.workloads_drawn = options.workloads;
  const auto picture = picture_of_recording(options.file, bounds);
  if (!picture) return fail("report", picture.error(), kExitUsage);
  const auto text = rendered(*picture, format);
  if (!text) return fail("report", text.error(), kExitFailed);
  const auto written = to_standard ? write_all(STDOUT_FILENO, *text, "standard output")
                                   : write_file(options.out, options.force, *text);
  if (!written && written.error().code == EEXIST) return fail("report", there, kExitUsage);
  if (!written) return fail("report", written.error(), kExitFailed);
  // The page contains the remarks as well, but may be read much later.
  for (const std::string& remark : picture->remarks()) {
    fmt::print(stderr, "forestall report: {}\n", remark);
  }
  return kExitOk;
}

}  // namespace forestall::cli
