// SPDX-License-Identifier: Apache-2.0
// `forestall record`: writes the agent's observations and decisions to a file, without acting.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/printable.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "daemon/recording_session.h"
#include "forestall/v1/report.pb.h"
#include "intake/amounts.h"
#include "intake/cgroup_glob.h"
#include "messages/json.h"
#include "model/duration.h"

namespace forestall::cli {
namespace {

using namespace std::chrono_literals;

// The configuration without every setting that changes anything but the file. Real-time scheduling
// and the agent's own oom_score_adj are also left out.
Result<Config> observing(const Options& options, const RecordOptions& record) {
  intake::LoadedConfig loaded = TRY(host_config(options));
  for (const std::string& warning : loaded.warnings) fmt::print(stderr, "{}\n", warning);
  Config config = std::move(loaded.config);
  config.dry_run = true;
  config.guard = false;
  config.oom_score_adj = OomScoreAdj::observe;
  config.metrics_address.clear();
  config.recording.reset();
  for (const Feature feature :
       {Feature::memory_high, Feature::sched_fifo, Feature::oom_score_adj}) {
    config.disabled.set(static_cast<std::size_t>(feature));
  }
  for (const std::string& glob : record.cgroups) {
    if (const auto checked = intake::check_glob(glob); !checked) {
      return error(fmt::format("--cgroup '{}' {}", glob, checked.error().message));
    }
    // The first match counts: rules of the configuration come first.
    WorkloadRule rule;
    rule.cgroup = glob;
    config.workloads.push_back(std::move(rule));
  }
  return config;
}

double bytes_per_entry(const recording::WriterTotals& totals) {
  if (totals.entries == 0) return 0;
  return static_cast<double>(totals.file_bytes) / static_cast<double>(totals.entries);
}

std::string text_of(const recording::WriterTotals& totals, const std::string& file) {
  return fmt::format(
      "{}: {} entries in {} bytes, {:.1f} bytes per entry ({} bytes before packing, in {} "
      "chunks)\nlost because the buffer was full: {} entries, {} bytes\n",
      file, totals.entries, totals.file_bytes, bytes_per_entry(totals), totals.entry_bytes,
      totals.chunks, totals.lost_entries, totals.lost_bytes);
}

std::string json_of(const recording::WriterTotals& totals, const std::string& file) {
  v1::RecordingReport report;
  report.set_file(file);
  report.set_entries(totals.entries);
  report.set_entry_bytes(totals.entry_bytes);
  report.set_file_bytes(totals.file_bytes);
  report.set_chunks(totals.chunks);
  report.set_lost_entries(totals.lost_entries);
  report.set_lost_bytes(totals.lost_bytes);
  report.set_bytes_per_entry(bytes_per_entry(totals));
  return messages::to_json(report, messages::JsonStyle::pretty);
}

}  // namespace

int run_record(const Options& options, const RecordOptions& record) {
  const auto config = observing(options, record);
  if (!config) return fail("record", config.error(), kExitUsage);
  daemon::RecordingSession session;
  session.cgroup_mount = options.cgroup_mount;
  session.verbose = options.verbose;
  session.target.path = record.file;
  session.target.overwrite = record.force;
  session.config_origin = config_origin(options);
  if (!record.duration.empty()) {
    const auto duration = intake::parse_duration_within(record.duration, 1ms, 8760h);
    if (!duration) return fail("record", duration.error().in("--duration"), kExitUsage);
    session.duration = *duration;
  }
  const Error there = error(record.file + " exists; --force overwrites it");
  // Checked before the host is probed, which takes time. The open below checks again.
  if (!record.force && ::access(record.file.c_str(), F_OK) == 0)
    return fail("record", there, kExitUsage);
  const auto totals = run_recording_session(session, *config);
  if (!totals) {
    const bool exists = totals.error().code == EEXIST;
    return exists ? fail("record", there, kExitUsage) : fail("record", totals.error(), kExitFailed);
  }
  const bool as_json = options.output == OutputFormat::json;
  fmt::print("{}", as_json ? json_of(*totals, record.file) : text_of(*totals, record.file));
  return kExitOk;
}

}  // namespace forestall::cli
