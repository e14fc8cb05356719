// SPDX-License-Identifier: Apache-2.0
// `forestall report`: renders a recording as a page, Markdown, PNG or JSON.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "api/json.h"
#include "base/unique_fd.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/plot_process.h"
#include "cli/recording_picture.h"
#include "cli/report_options.h"
#include "cli/report_text.h"
#include "page/report_page.h"

namespace forestall::cli {
namespace {

int fail(const Error& failure, int code) {
  fmt::print(stderr, "forestall report: {}\n", failure.text());
  return code;
}

ReportFormat format_of(const ReportOptions& options) {
  if (options.format_given) return options.format;
  const std::string_view out = options.out;
  if (out.ends_with(".md")) return ReportFormat::md;
  if (out.ends_with(".png")) return ReportFormat::png;
  if (out.ends_with(".json")) return ReportFormat::json;
  return ReportFormat::html;
}

Result<std::string> rendered(const v1::Picture& picture, ReportFormat format) {
  switch (format) {
    case ReportFormat::html: return page::report_page(api::to_json(picture, api::JsonStyle::line));
    case ReportFormat::md: return report_text(picture);
    case ReportFormat::png: return plotted(picture);
    case ReportFormat::json: return api::to_json(picture, api::JsonStyle::pretty);
  }
  return error("unknown format");
}

Result<void> write_all(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("write", name);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

// Writes the new file completely before it replaces the old one.
Result<void> write_file(const std::string& path, bool force, std::string_view text) {
  struct stat there {};
  if (force && ::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    // A device such as /dev/null is opened, not replaced.
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (!fd) return errno_error("open", path);
    return write_all(fd.get(), text, path);
  }
  const std::string beside = fmt::format("{}.{}.part", path, ::getpid());
  UniqueFd fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return errno_error("open", beside);
  auto written = write_all(fd.get(), text, beside);
  if (written && ::fsync(fd.get()) != 0) written = errno_error("fsync", beside);
  // link(2) fails if the path exists; rename(2) replaces it.
  Result<void> placed = written;
  if (written && force && ::rename(beside.c_str(), path.c_str()) != 0) {
    placed = errno_error("rename", path);
  } else if (written && !force && ::link(beside.c_str(), path.c_str()) != 0) {
    placed = errno_error("link", path);
  }
  ::unlink(beside.c_str());
  return placed;
}

}  // namespace

int run_report(const ReportOptions& options) {
  const bool to_standard = options.out.empty() || options.out == "-";
  const ReportFormat format = format_of(options);
  if (to_standard && format == ReportFormat::png && ::isatty(STDOUT_FILENO) == 1) {
    return fail(error("PNG cannot be shown on a terminal: set a file with -o"), kExitUsage);
  }
  const Error there = error(options.out + " exists; --force overwrites it");
  // Checked before the recording is read, which takes time. write_file() checks again.
  if (!to_standard && !options.force && ::access(options.out.c_str(), F_OK) == 0) {
    return fail(there, kExitUsage);
  }
  picture::Bounds bounds;
  bounds.workloads_drawn = options.workloads;
  const auto picture = picture_of_recording(options.file, bounds);
  if (!picture) return fail(picture.error(), kExitUsage);
  const auto text = rendered(*picture, format);
  if (!text) return fail(text.error(), kExitFailed);
  const auto written = to_standard ? write_all(STDOUT_FILENO, *text, "standard output")
                                   : write_file(options.out, options.force, *text);
  if (!written && written.error().code == EEXIST) return fail(there, kExitUsage);
  if (!written) return fail(written.error(), kExitFailed);
  // The page contains the remarks as well, but may be read much later.
  for (const std::string& remark : picture->remarks()) {
    fmt::print(stderr, "forestall report: {}\n", remark);
  }
  return kExitOk;
}

}  // namespace forestall::cli
