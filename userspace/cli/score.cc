// SPDX-License-Identifier: Apache-2.0
// `forestall score`: the kernel's OOM scores of processes, for a node that is out of memory.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/parse.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/process_input.h"
#include "cli/score_text.h"
#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "kernel/process_ref.h"
#include "messages/json.h"
#include "policy/oom_selection.h"
#include "sources/oom_scene.h"

namespace forestall::cli {
namespace {

// One screen.
constexpr std::size_t kTextLimit = 20;

Result<std::string> read_proc(const std::string& path) {
  const kernel::HeldFile file = TRY(kernel::HeldFile::open(AT_FDCWD, path.c_str(), path));
  std::string buffer;
  return std::string(TRY(file.read(buffer)));
}

bool has_process(const OomScene& scene, pid_t pid) {
  return std::any_of(scene.processes.begin(), scene.processes.end(),
                     [&](const ProcessSample& process) { return process.id.pid == pid; });
}

// Some kernels hide pid 1 from the BPF task iterator (seen on a 6.18 that also refuses fentry).
// Processes that were requested by pid and not found are read from /proc.
Result<void> add_unseen(const kernel::CgroupTree& tree, const ScoreOptions& score,
                        ScoreView& view) {
  const auto seen = [&](pid_t pid) { return has_process(view.scene, pid); };
  if (view.reading.source == "proc" || std::all_of(score.pids.begin(), score.pids.end(), seen)) {
    return {};
  }
  const auto proc = TRY(sources::proc_process_source(tree));
  std::vector<ProcessSample> samples;
  TRY(proc->scan(std::nullopt, samples));
  for (const ProcessSample& sample : samples) {
    const pid_t pid = sample.id.pid;
    const bool listed = std::find(score.pids.begin(), score.pids.end(), pid) != score.pids.end();
    if (!listed || seen(pid)) continue;
    view.scene.processes.push_back(sample);
    fmt::print(stderr,
               "note: the BPF task iterator does not return process {}; it was read from /proc\n",
               pid);
  }
  return {};
}

Result<void> read(const Options& options, const FeatureSet& disabled, const ScoreOptions& score,
                  ScoreView& view) {
  const kernel::CgroupTree tree = TRY(kernel::CgroupTree::discover(options.cgroup_mount));
  OpenedProcesses processes = TRY(open_processes(tree, disabled));
  view.reading = processes.reading;
  TRY(sources::OomSceneReader(tree, *processes.source).read_node(view.scene));
  TRY(add_unseen(tree, score, view));
  view.processes = view.scene.processes.size();
  const std::string text = TRY(read_proc("/proc/meminfo"));
  const kernel::Meminfo meminfo = TRY(kernel::parse_meminfo(text));
  view.memory = meminfo.total;
  view.swap = meminfo.swap_total;
  return {};
}

// All eligible processes, up to the limit.
void show_all(const Options& options, const ScoreOptions& score, ScoreView& view) {
  const std::vector<OomChoice> order = policy::oom_order(view.scene);
  view.choosable = order.size();
  const bool text = options.output == OutputFormat::text;
  std::size_t limit = score.limit.value_or(text ? kTextLimit : 0);
  if (limit == 0) limit = order.size();
  for (std::size_t i = 0; i < std::min(limit, order.size()); ++i) {
    view.shown.push_back(order[i].process);
  }
}

// The scan omits kernel threads, whose score is always 0.
std::optional<ProcessSample> kernel_thread(pid_t pid) {
  const auto stat = kernel::read_process_stat(pid);
  if (!stat || !stat->kernel_thread) return std::nullopt;
  ProcessSample process;
  process.id = {pid, stat->start_ticks};
  process.unkillable = Unkillable::kernel_thread;
  const auto comm = read_proc(fmt::format("/proc/{}/comm", pid));
  if (comm) {
    const std::string_view name = trim(*comm);
    std::copy_n(name.begin(), std::min(name.size(), process.comm.size() - 1), process.comm.begin());
  }
  return process;
}

// Why there is no such process. A thread has the score of its process.
std::string why_unknown(pid_t pid) {
  const auto status = read_proc(fmt::format("/proc/{}/status", pid));
  if (!status) return fmt::format("no such process: {}", pid);
  std::string_view rest = *status;
  while (!rest.empty()) {
    std::string_view line = next_field(rest, '\n');
    if (next_word(line) != "Tgid:") continue;
    const auto process = parse_i64(trim(line));
    if (process && *process != pid) {
      return fmt::format("{} is a thread of process {}; processes are scored", pid, *process);
    }
  }
  return fmt::format("process {} is not among those that could be read", pid);
}

// The requested processes, without duplicates. Returns false after an error message if one was not
// found.
bool show_listed(const ScoreOptions& score, ScoreView& view) {
  bool found_all = true;
  auto& processes = view.scene.processes;
  for (const pid_t pid : score.pids) {
    auto found = std::find_if(processes.begin(), processes.end(),
                              [&](const ProcessSample& process) { return process.id.pid == pid; });
    if (found == processes.end()) {
      const auto thread = kernel_thread(pid);
      if (!thread) {
        fmt::print(stderr, "forestall score: {}\n", why_unknown(pid));
        found_all = false;
        continue;
      }
      found = processes.insert(processes.end(), *thread);
    }
    const auto index = static_cast<std::size_t>(found - processes.begin());
    if (std::find(view.shown.begin(), view.shown.end(), index) == view.shown.end()) {
      view.shown.push_back(index);
    }
  }
  view.by_pid = true;
  return found_all;
}

}  // namespace

int run_score(const Options& options, const ScoreOptions& score) {
  const auto disabled = disabled_features(options);
  if (!disabled) {
    fmt::print(stderr, "forestall score: {}\n", printable_lines(disabled.error().text()));
    return kExitUsage;
  }
  ScoreView view;
  const auto done = read(options, *disabled, score, view);
  if (!done) {
    fmt::print(stderr, "forestall score: {}\n", printable_lines(done.error().text()));
    return kExitFailed;
  }
  bool found_all = true;
  if (score.pids.empty()) {
    show_all(options, score, view);
  } else {
    found_all = show_listed(score, view);
    if (view.shown.empty()) return kExitFailed;
  }
  const tables::ProcessShow show = show_here();
  if (options.output == OutputFormat::json) {
    fmt::print("{}", messages::to_json(to_report(view, show), messages::JsonStyle::pretty));
  } else {
    fmt::print("{}", score_text(view, show));
  }
  return found_all ? kExitOk : kExitFailed;
}

}  // namespace forestall::cli
