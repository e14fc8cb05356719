// SPDX-License-Identifier: Apache-2.0
#include "sources/rule_gate_reader.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "kernel/memory_files.h"
#include "sources/rule_pressure.h"

namespace forestall::sources {
namespace {

using rulesets::PressureResource;

const char* pressure_name(PressureResource resource) {
  switch (resource) {
    case PressureResource::memory: break;
    case PressureResource::io: return "io.pressure";
    case PressureResource::cpu: return "cpu.pressure";
  }
  return "memory.pressure";
}

const char* resource_name(PressureResource resource) {
  switch (resource) {
    case PressureResource::memory: break;
    case PressureResource::io: return "io";
    case PressureResource::cpu: return "cpu";
  }
  return "memory";
}

}  // namespace

std::size_t RuleGateReader::held_max() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur / 8, kHeldMax));
}

std::optional<double> RuleGateReader::highest(const rulesets::PressureGate& gate) {
  double highest = 0;
  for (const std::string& path : gate.cgroups) {
    std::string_view text;
    const auto found = read({path, gate.resource}, text);
    if (!found) return std::nullopt;
    if (!*found) continue;
    const auto file = rule_pressure(text);
    if (!file) return std::nullopt;
    highest = std::max(highest, rulesets::average_of(gate, *file));
  }
  return highest;
}

void RuleGateReader::keep(const std::vector<rulesets::PressureGate>& gates) {
  std::set<Key> needed;
  for (const rulesets::PressureGate& gate : gates) {
    for (const std::string& path : gate.cgroups) needed.emplace(path, gate.resource);
  }
  std::erase_if(held_, [&](const auto& each) { return !needed.contains(each.first); });
}

// A cgroup that was removed may have been created again: its averages begin at 0. One whose
// pressure is off (cgroup.pressure) has none until it is on, and then those of before.
Result<bool> RuleGateReader::read(const Key& key, std::string_view& text) {
  if (const auto held = held_.find(key); held != held_.end()) {
    const auto again = held->second.read_once(buffer_);
    if (again) {
      text = *again;
      return true;
    }
    held_.erase(held);
  }
  auto opened = open(key);
  if (!opened && has_never_pressure(key)) return false;
  if (!opened) return opened.error();
  const auto read = opened->read_once(buffer_);
  if (!read && has_never_pressure(key)) return false;
  if (!read) return read.error();
  text = *read;
  if (held_.size() < held_max_) held_.emplace(key, std::move(opened).value());
  return true;
}

// On v1, and without PSI in the kernel, no detector of a cgroup's pressure ever fires.
bool RuleGateReader::has_never_pressure(const Key& key) const {
  const auto& [path, resource] = key;
  if (::access((proc_ + "/pressure").c_str(), F_OK) != 0 && errno == ENOENT) return true;
  if (path == "/") return false;
  if (tree_.version() == kernel::CgroupVersion::v1) return true;
  const auto directory = tree_.open(path);
  return !directory && kernel::is_removed(directory.error());
}

Result<kernel::HeldFile> RuleGateReader::open(const Key& key) const {
  const auto& [path, resource] = key;
  if (path == "/") {
    const std::string file = proc_ + "/pressure/" + resource_name(resource);
    return kernel::HeldFile::open(AT_FDCWD, file.c_str(), file);
  }
  const auto directory = TRY(tree_.open(path));
  const char* const file = pressure_name(resource);
  return kernel::HeldFile::open(directory.fd(), file, path + "/" + file);
}

}  // namespace forestall::sources
