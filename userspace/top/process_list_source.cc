// SPDX-License-Identifier: Apache-2.0
#include "top/process_list_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/printable.h"
#include "kernel/held_file.h"
#include "kernel/process_ref.h"
#include "policy/badness.h"
#include "sources/process_text.h"
#include "tables/process_text.h"

namespace forestall::top {
namespace {

const std::int64_t kPageBytes = ::sysconf(_SC_PAGESIZE);

Pages resident(const ProcessSample& process) {
  return process.memory.file + process.memory.anon + process.memory.shmem;
}

// Nothing: the process is gone. The start time is read last: if it is that of the sample, the
// number before it is of the same process.
std::optional<std::uint64_t> threads_of(const ProcessSample& process) {
  const std::string path = fmt::format("/proc/{}/status", process.id.pid);
  const auto file = kernel::HeldFile::open(AT_FDCWD, path.c_str(), path);
  std::string buffer;
  const auto text = file ? file->read(buffer) : file.error();
  const auto status = text ? sources::parse_status_text(*text, kPageBytes) : text.error();
  const auto stat = kernel::read_process_stat(process.id.pid);
  if (!status || !stat || stat->start_ticks != process.id.start_ticks) return std::nullopt;
  return status->threads;
}

// RAM and swap, the base of oom_score_adj.
std::optional<Pages> total_pages(const v1::NodeSample& node) {
  if (!node.has_capacity_bytes() || !node.has_swap_total_bytes()) return std::nullopt;
  return (node.capacity_bytes() + node.swap_total_bytes()) / kPageBytes;
}

void add_process(const ProcessSample& process, std::uint64_t threads, std::optional<Pages> total,
                 internal::TopProcesses& out) {
  internal::TopProcess& each = *out.add_processes();
  each.set_pid(process.id.pid);
  each.set_command(forestall::printable(process.name()));
  each.set_rss_bytes(resident(process) * kPageBytes);
  each.set_swap_bytes(process.memory.swap * kPageBytes);
  each.set_oom_score_adj(process.oom_score_adj);
  each.set_threads(threads);
  each.set_dying(process.dying);
  each.set_kernel_protection(std::string(tables::unkillable_text(process.unkillable)));
  const auto points = total ? policy::badness(process, *total) : std::nullopt;
  if (points) each.set_points(*points);
}

}  // namespace

Result<void> ProcessListSource::read_processes(const v1::NodeSample& node,
                                               internal::TopProcesses& out) {
  if (tree_ == nullptr) return error("the cgroups of this host could not be found");
  if (!source_) source_ = TRY(sources::proc_process_source(*tree_));
  const auto cgroup = tree_->open(out.path());
  const auto scanned = cgroup ? source_->scan(cgroup->id(), samples_) : cgroup.error();
  if (!scanned && scanned.error().code == ENOENT) return error("its cgroup was removed");
  TRY(scanned);
  std::ranges::sort(samples_, [](const ProcessSample& a, const ProcessSample& b) {
    return resident(a) != resident(b) ? resident(a) > resident(b) : a.id.pid < b.id.pid;
  });
  const auto total = total_pages(node);
  std::size_t gone = 0;
  for (const ProcessSample& each : samples_) {
    const bool listed = static_cast<std::size_t>(out.processes_size()) < kListedMax;
    const auto threads = listed ? threads_of(each) : std::nullopt;
    if (listed && !threads) {
      ++gone;
      continue;
    }
    if (listed) add_process(each, *threads, total, out);
    out.set_rss_bytes(out.rss_bytes() + resident(each) * kPageBytes);
    out.set_swap_bytes(out.swap_bytes() + each.memory.swap * kPageBytes);
  }
  out.set_count(samples_.size() - gone);
  return {};
}

void ProcessListSource::read(const std::string& path, internal::TopReport& report) {
  internal::TopProcesses& out = *report.mutable_processes();
  out.set_path(path);
  const auto read = read_processes(report.signals().observation().node(), out);
  if (!read) out.set_problem(read.error().text());
}

}  // namespace forestall::top
