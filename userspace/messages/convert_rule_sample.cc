// SPDX-License-Identifier: Apache-2.0
// What rulesets decide on.
#include <algorithm>
#include <utility>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

using rulesets::PressureFile;
using rulesets::PressureLine;

v1::RuleSample::PressureLine to_proto(const PressureLine& line) {
  v1::RuleSample::PressureLine out;
  out.set_avg10(line.avg10);
  out.set_avg60(line.avg60);
  out.set_avg300(line.avg300);
  if (line.total_us) out.set_total_us(*line.total_us);
  return out;
}

PressureLine from_proto(const v1::RuleSample::PressureLine& message) {
  PressureLine line{message.avg10(), message.avg60(), message.avg300(), std::nullopt};
  if (message.has_total_us()) line.total_us = message.total_us();
  return line;
}

v1::RuleSample::Pressure to_proto(const PressureFile& file) {
  v1::RuleSample::Pressure out;
  if (file.some) *out.mutable_some() = to_proto(*file.some);
  if (file.full) *out.mutable_full() = to_proto(*file.full);
  return out;
}

PressureFile from_proto(const v1::RuleSample::Pressure& message) {
  PressureFile file;
  if (message.has_some()) file.some = from_proto(message.some());
  if (message.has_full()) file.full = from_proto(message.full());
  return file;
}

v1::RuleSample::MemoryStat to_proto(const rulesets::MemoryStatReading& stat) {
  v1::RuleSample::MemoryStat out;
  if (stat.anon) out.set_anon(*stat.anon);
  if (stat.active_anon) out.set_active_anon(*stat.active_anon);
  if (stat.inactive_anon) out.set_inactive_anon(*stat.inactive_anon);
  if (stat.active_file) out.set_active_file(*stat.active_file);
  if (stat.inactive_file) out.set_inactive_file(*stat.inactive_file);
  if (stat.pgscan) out.set_pgscan(*stat.pgscan);
  if (stat.refaults) out.set_refaults(*stat.refaults);
  return out;
}

rulesets::MemoryStatReading from_proto(const v1::RuleSample::MemoryStat& message) {
  rulesets::MemoryStatReading stat;
  if (message.has_anon()) stat.anon = message.anon();
  if (message.has_active_anon()) stat.active_anon = message.active_anon();
  if (message.has_inactive_anon()) stat.inactive_anon = message.inactive_anon();
  if (message.has_active_file()) stat.active_file = message.active_file();
  if (message.has_inactive_file()) stat.inactive_file = message.inactive_file();
  if (message.has_pgscan()) stat.pgscan = message.pgscan();
  if (message.has_refaults()) stat.refaults = message.refaults();
  return stat;
}

v1::RuleSample::Io to_proto(const std::vector<rulesets::DeviceIo>& devices) {
  v1::RuleSample::Io out;
  for (const rulesets::DeviceIo& each : devices) {
    v1::RuleSample::DeviceIo& added = *out.add_devices();
    added.set_device(text::to_utf8(each.device));
    added.set_rbytes(each.rbytes);
    added.set_wbytes(each.wbytes);
    added.set_rios(each.rios);
    added.set_wios(each.wios);
    added.set_dbytes(each.dbytes);
    added.set_dios(each.dios);
  }
  return out;
}

std::vector<rulesets::DeviceIo> from_proto(const v1::RuleSample::Io& message) {
  std::vector<rulesets::DeviceIo> devices;
  for (const v1::RuleSample::DeviceIo& each : message.devices()) {
    devices.push_back({each.device(), each.rbytes(), each.wbytes(), each.rios(), each.wios(),
                       each.dbytes(), each.dios()});
  }
  return devices;
}

v1::RuleSample::Cgroup to_proto(const rulesets::Cgroup& cgroup) {
  v1::RuleSample::Cgroup out;
  out.set_path(text::to_utf8(cgroup.path));
  out.set_cgroup_id(cgroup.id);
  out.set_uid(cgroup.uid);
  if (cgroup.current) out.set_current(*cgroup.current);
  if (cgroup.min) out.set_min(*cgroup.min);
  if (cgroup.low) out.set_low(*cgroup.low);
  if (cgroup.high) out.set_high(*cgroup.high);
  if (cgroup.high_tmp) out.set_high_tmp(*cgroup.high_tmp);
  if (cgroup.max) out.set_max(*cgroup.max);
  if (cgroup.swap_current) out.set_swap_current(*cgroup.swap_current);
  if (cgroup.swap_max) out.set_swap_max(*cgroup.swap_max);
  if (cgroup.stat) *out.mutable_stat() = to_proto(*cgroup.stat);
  if (cgroup.memory_pressure) *out.mutable_memory_pressure() = to_proto(*cgroup.memory_pressure);
  if (cgroup.io_pressure) *out.mutable_io_pressure() = to_proto(*cgroup.io_pressure);
  if (cgroup.cpu_pressure) *out.mutable_cpu_pressure() = to_proto(*cgroup.cpu_pressure);
  if (cgroup.io) *out.mutable_io() = to_proto(*cgroup.io);
  if (cgroup.dying_descendants) out.set_dying_descendants(*cgroup.dying_descendants);
  if (cgroup.oom_group) out.set_oom_group(*cgroup.oom_group);
  if (cgroup.populated) out.set_populated(*cgroup.populated);
  if (cgroup.frozen) out.set_frozen(*cgroup.frozen);
  out.set_has_reclaim(cgroup.has_reclaim);
  for (const auto& [name, value] : cgroup.xattrs) out.add_attributes(text::to_utf8(name));
  return out;
}

rulesets::Cgroup from_proto(const v1::RuleSample::Cgroup& message) {
  rulesets::Cgroup cgroup;
  cgroup.path = message.path();
  cgroup.id = message.cgroup_id();
  cgroup.uid = message.uid();
  if (message.has_current()) cgroup.current = message.current();
  if (message.has_min()) cgroup.min = message.min();
  if (message.has_low()) cgroup.low = message.low();
  if (message.has_high()) cgroup.high = message.high();
  if (message.has_high_tmp()) cgroup.high_tmp = message.high_tmp();
  if (message.has_max()) cgroup.max = message.max();
  if (message.has_swap_current()) cgroup.swap_current = message.swap_current();
  if (message.has_swap_max()) cgroup.swap_max = message.swap_max();
  if (message.has_stat()) cgroup.stat = from_proto(message.stat());
  if (message.has_memory_pressure()) cgroup.memory_pressure = from_proto(message.memory_pressure());
  if (message.has_io_pressure()) cgroup.io_pressure = from_proto(message.io_pressure());
  if (message.has_cpu_pressure()) cgroup.cpu_pressure = from_proto(message.cpu_pressure());
  if (message.has_io()) cgroup.io = from_proto(message.io());
  if (message.has_dying_descendants()) cgroup.dying_descendants = message.dying_descendants();
  if (message.has_oom_group()) cgroup.oom_group = message.oom_group();
  if (message.has_populated()) cgroup.populated = message.populated();
  if (message.has_frozen()) cgroup.frozen = message.frozen();
  cgroup.has_reclaim = message.has_reclaim();
  for (const std::string& name : message.attributes()) cgroup.xattrs.emplace_back(name, "");
  return cgroup;
}

v1::RuleSample::Host to_proto(const rulesets::Host& host) {
  v1::RuleSample::Host out;
  if (host.mem_total) out.set_mem_total(*host.mem_total);
  if (host.mem_free) out.set_mem_free(*host.mem_free);
  if (host.mem_available) out.set_mem_available(*host.mem_available);
  if (host.swap_total) out.set_swap_total(*host.swap_total);
  if (host.swap_free) out.set_swap_free(*host.swap_free);
  return out;
}

rulesets::Host from_proto(const v1::RuleSample::Host& message) {
  rulesets::Host host;
  if (message.has_mem_total()) host.mem_total = message.mem_total();
  if (message.has_mem_free()) host.mem_free = message.mem_free();
  if (message.has_mem_available()) host.mem_available = message.mem_available();
  if (message.has_swap_total()) host.swap_total = message.swap_total();
  if (message.has_swap_free()) host.swap_free = message.swap_free();
  return host;
}

}  // namespace

v1::RuleSample to_proto(const rulesets::RuleObservation& observation) {
  v1::RuleSample out;
  out.set_at_ns(observation.time.count());
  *out.mutable_host() = to_proto(observation.host);
  for (const rulesets::Cgroup& each : observation.cgroups) *out.add_cgroups() = to_proto(each);
  out.set_incomplete(observation.incomplete);
  for (const std::string& path : observation.spared) out.add_spared(text::to_utf8(path));
  for (const std::string& name : observation.deferred) out.add_deferred(text::to_utf8(name));
  return out;
}

// Sorted again: by hand the order is free, and replacing invalid UTF-8 may have changed it.
rulesets::RuleObservation from_proto(const v1::RuleSample& message) {
  rulesets::RuleObservation observation;
  observation.time = std::chrono::nanoseconds(message.at_ns());
  observation.host = from_proto(message.host());
  for (const v1::RuleSample::Cgroup& each : message.cgroups()) {
    observation.cgroups.push_back(from_proto(each));
  }
  std::ranges::stable_sort(observation.cgroups, {}, &rulesets::Cgroup::path);
  observation.incomplete = message.incomplete();
  observation.spared.assign(message.spared().begin(), message.spared().end());
  observation.deferred.assign(message.deferred().begin(), message.deferred().end());
  std::ranges::sort(observation.deferred);
  return observation;
}

}  // namespace forestall::messages
