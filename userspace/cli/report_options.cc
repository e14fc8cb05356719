// SPDX-License-Identifier: Apache-2.0
#include "cli/report_options.h"

#include <CLI/CLI.hpp>
#include <map>

namespace forestall::cli {

void add_report_options(CLI::App& command, ReportOptions& options) {
  static const std::map<std::string, ReportFormat> kFormats{{"html", ReportFormat::html},
                                                            {"md", ReportFormat::md},
                                                            {"png", ReportFormat::png},
                                                            {"json", ReportFormat::json}};
  command.add_option("file", options.file, "A recording, or the directory of an agent's")
      ->required();
  command.add_option("-o,--out", options.out,
                     "The file to be made (default: standard output, as is -)");
  command
      .add_option_function<ReportFormat>(
          "--format",
          [&options](const ReportFormat& format) {
            options.format = format;
            options.format_given = true;
          },
          "html, a page that needs nothing else; md and png for a ticket; json, what they are made "
          "of (default: as the file's name ends, else html)")
      ->transform(CLI::CheckedTransformer(kFormats))
      ->option_text("html|md|png|json");
  command.add_flag("-f,--force", options.force, "Overwrite the file if it is there");
  command
      .add_option("--workloads", options.workloads,
                  "How many workloads are drawn by themselves, the largest; the others are "
                  "drawn as their sum (default: 12)")
      ->check(CLI::Range(1, 100))
      ->option_text("N");
}

}  // namespace forestall::cli
