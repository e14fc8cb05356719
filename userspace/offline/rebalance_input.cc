// SPDX-License-Identifier: Apache-2.0
#include "offline/rebalance_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>

#include "base/parse.h"
#include "base/printable.h"
#include "base/unique_fd.h"
#include "cli/exit_code.h"
#include "cli/pod_input.h"
#include "descheduler/move_history.h"
#include "intake/wall_time.h"
#include "text/json_writer.h"

namespace forestall::cli {
namespace {

constexpr off_t kClusterBytesMax = off_t{4} << 30;

// The text of a file, with kJsonPadding bytes behind it. A string would fill them all with zeros
// before the read.
struct FileText {
  std::unique_ptr<char[]> bytes;  // null: `streamed` has it
  std::size_t size = 0;
  std::string streamed;

  [[nodiscard]] std::string_view view() const {
    return bytes == nullptr ? std::string_view(streamed) : std::string_view(bytes.get(), size);
  }
};

// A snapshot fills a large part of the memory: no second copy of its text while it grows.
Result<FileText> read_text(const std::string& path) {
  FileText text;
  const auto read_stream = [&]() -> Result<void> {
    text.streamed = TRY(read_input(path));
    text.streamed.reserve(text.streamed.size() + descheduler::ClusterSnapshotReader::kJsonPadding);
    return {};
  };
  if (path == "-") {
    TRY(read_stream());
    return text;
  }
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_error("open", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return errno_error("fstat", path);
  if (!S_ISREG(status.st_mode)) {
    TRY(read_stream());
    return text;
  }
  if (status.st_size > kClusterBytesMax) return error(path + ": larger than 4 GiB");
  const auto size = static_cast<std::size_t>(status.st_size);
  text.bytes = std::make_unique_for_overwrite<char[]>(
      size + descheduler::ClusterSnapshotReader::kJsonPadding);
  while (text.size < size) {
    const ssize_t got = ::read(file.get(), text.bytes.get() + text.size, size - text.size);
    if (got < 0 && errno != EINTR) return errno_error("read", path);
    if (got == 0) break;
    if (got > 0) text.size += static_cast<std::size_t>(got);
  }
  std::memset(text.bytes.get() + text.size, 0, descheduler::ClusterSnapshotReader::kJsonPadding);
  return text;
}

// An error that may begin with LINE:COLUMN.
text::Finding finding_of(const std::string& path, const Error& failure) {
  const std::string message = failure.text();
  std::string_view rest = message;
  const auto line = parse_u64(next_field(rest, ':'));
  const auto column = line ? parse_u64(next_field(rest, ':')) : std::nullopt;
  if (!column) return {{path, std::nullopt}, message};
  const text::Position at{static_cast<std::uint32_t>(*line), static_cast<std::uint32_t>(*column)};
  return {{path, at}, std::string(trim(rest))};
}

void read_history(const std::string& path, RebalanceInput& input, text::Findings& findings) {
  if (path.empty()) return;
  const auto text = read_text(path);
  if (!text) {
    findings.errors.push_back({{path, std::nullopt}, text.error().text()});
    return;
  }
  auto history = descheduler::parse_plan_history(text->view());
  if (!history) {
    findings.errors.push_back(finding_of(path, history.error()));
    return;
  }
  input.history = std::move(*history);
}

void forget_sample_times(rebalance::Snapshot& snapshot) {
  for (auto* const samples : {&snapshot.node_metrics, &snapshot.pod_metrics}) {
    for (rebalance::MetricsSample& each : *samples) each.time_ns.reset();
  }
}

std::int64_t time_of_day() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

bool add_file(descheduler::ClusterSnapshotReader& reader, const std::string& path,
              text::Findings& findings) {
  const auto text = read_text(path);
  if (!text) {
    findings.errors.push_back({{path, std::nullopt}, text.error().text()});
    return false;
  }
  const auto added = reader.add_padded(text->view());
  if (!added) findings.errors.push_back(finding_of(path, added.error()));
  return added.ok();
}

std::optional<RebalanceInput> load_rebalance_input(const RebalanceOptions& options,
                                                   text::Findings& findings) {
  std::int64_t now = time_of_day();
  if (!options.now.empty()) {
    const auto given = intake::parse_wall_time(options.now);
    if (!given) {
      findings.errors.push_back(
          {{"--now", std::nullopt},
           fmt::format("expected a time such as 2026-01-02T15:04:05Z, found '{}'", options.now)});
      return std::nullopt;
    }
    now = *given;
  }
  descheduler::ClusterSnapshotReader reader;
  for (const std::string& each : options.cluster) add_file(reader, each, findings);
  for (const std::string& each : options.metrics) add_file(reader, each, findings);
  RebalanceInput input;
  input.snapshot = reader.take(now);
  // The time of the files is not known.
  if (options.now.empty()) forget_sample_times(input.snapshot);
  read_history(options.history, input, findings);
  const auto text = read_text(options.policy);
  if (!text) {
    findings.errors.push_back({{options.policy, std::nullopt}, text.error().text()});
    return std::nullopt;
  }
  const auto* const classes = options.cluster.empty() ? nullptr : &input.snapshot.priority_classes;
  auto policy =
      descheduler::parse_descheduler_policy(options.policy, text->view(), classes, findings);
  for (const std::string& each : text::format_each(findings.warnings)) {
    fmt::print(stderr, "warning: {}\n", printable_lines(each));
  }
  if (!policy || !findings.errors.empty()) return std::nullopt;
  input.policy = std::move(*policy);
  return input;
}

std::string errors_json(const text::Findings& findings) {
  text::JsonWriter out;
  out.begin_object();
  out.key("errors");
  out.begin_list();
  for (const text::Finding& each : findings.errors) {
    out.begin_object();
    out.member("place", text::to_string(each.origin));
    out.member("message", each.message);
    out.end_object();
  }
  out.end_list();
  out.end_object();
  return std::move(out).take();
}

int report_errors(const text::Findings& findings, bool json) {
  fmt::print(stderr, "{}\n", text::format(findings.errors));
  if (json) fmt::print("{}", errors_json(findings));
  return kExitUsage;
}

}  // namespace forestall::cli
