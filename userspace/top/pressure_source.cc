// SPDX-License-Identifier: Apache-2.0
#include "top/pressure_source.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "kernel/held_file.h"
#include "kernel/memory_files.h"

namespace forestall::top {
namespace {

// Share of the window; without an earlier value, the kernel's average. The total is read slightly
// after the end of the window and may exceed it.
double share(const kernel::PsiLine& line, std::optional<Duration>& before, Duration window) {
  const auto last = std::exchange(before, line.total);
  if (!last || window <= Duration::zero()) return line.avg10_hundredths / 1e4;
  return std::clamp(
      static_cast<double>((line.total - *last).count()) / static_cast<double>(window.count()), 0.0,
      1.0);
}

}  // namespace

PressureSource::PressureSource(const kernel::CgroupTree* tree, std::string proc)
    : tree_(tree), proc_(std::move(proc)) {}

void PressureSource::evaluate_at(ResourceStall& resource, Duration window,
                                 internal::TopReport& report) const {
  const std::string path = proc_ + "/pressure/" + resource.name;
  const auto file = kernel::HeldFile::open(AT_FDCWD, path.c_str(), path);
  std::string buffer;
  const auto text = file ? file->read(buffer) : file.error();
  const auto psi = text ? kernel::parse_psi(*text) : text.error();
  if (!psi || !psi->some) return;
  internal::PressureShare& out = *report.add_pressure();
  out.set_resource(resource.name);
  out.set_some(share(*psi->some, resource.some, window));
  if (psi->full) out.set_full(share(*psi->full, resource.full, window));
}

std::optional<Duration> PressureSource::stalled(const v1::Workload& workload) const {
  if (tree_ == nullptr) return std::nullopt;
  // On a hybrid v2 host, the pressure of a cgroup is at the same path of the unified hierarchy, if
  // that exists.
  const auto directory = tree_->open_unified(workload.path());
  const auto text = directory ? directory->read("memory.pressure") : directory.error();
  const auto psi = text ? kernel::parse_psi(*text) : text.error();
  if (!psi || !psi->some) return std::nullopt;
  return psi->some->total;
}

void PressureSource::read(MonotonicTime now, internal::TopReport& report) {
  const auto before = std::exchange(last_, now);
  const Duration window = before ? now - *before : Duration::zero();
  for (ResourceStall& each : resources_) evaluate_at(each, window, report);
  std::map<std::uint64_t, Stalled> seen;
  for (internal::TopWorkload& each : *report.mutable_workloads()) {
    const v1::Workload& workload = each.candidate().sample().workload();
    const auto total = stalled(workload);
    if (!total) continue;
    const auto last = stalled_.find(workload.cgroup_id());
    if (last != stalled_.end() && now > last->second.at) {
      const auto part = static_cast<double>((*total - last->second.total).count()) /
                        static_cast<double>((now - last->second.at).count());
      each.set_stall_ns_per_second(static_cast<std::int64_t>(std::clamp(part, 0.0, 1.0) * 1e9));
    }
    seen[workload.cgroup_id()] = {*total, now};
  }
  stalled_ = std::move(seen);
}

}  // namespace forestall::top
