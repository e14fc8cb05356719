// SPDX-License-Identifier: Apache-2.0
#include "cli/managed_oom_advice.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/parse.h"
#include "base/printable.h"
#include "kernel/held_file.h"

namespace forestall::cli {
namespace {

constexpr const char* kUnit = "systemd-oomd.service";
constexpr const char* kCgroup = "/system.slice/systemd-oomd.service";

// A masked unit is a link to /dev/null.
bool is_usable(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    const std::filesystem::path unit = std::filesystem::path(directory) / kUnit;
    std::error_code problem;
    const auto status = std::filesystem::symlink_status(unit, problem);
    if (!std::filesystem::exists(status)) continue;
    const bool is_link = std::filesystem::is_symlink(status);
    return !is_link || std::filesystem::read_symlink(unit, problem) != "/dev/null";
  }
  return false;
}

std::string first_process(const kernel::CgroupTree& tree) {
  const auto cgroup = tree.open(kCgroup);
  const auto processes = cgroup ? cgroup->processes() : cgroup.error();
  if (!processes || processes->empty()) return {};
  const auto name = fmt::format("/proc/{}/comm", processes->front());
  const auto file = kernel::HeldFile::open(AT_FDCWD, name.c_str(), name);
  std::string buffer;
  const auto text = file ? file->read(buffer) : file.error();
  return text ? std::string(trim(*text)) : std::string();
}

}  // namespace

SystemdOomdFacts read_systemd_oomd(const kernel::CgroupTree& tree,
                                   const std::vector<std::string>& units) {
  return {is_usable(units), first_process(tree)};
}

std::optional<std::string> systemd_oomd_advice(const SystemdOomdFacts& facts) {
  if (!facts.can_start || facts.process == "forestall") return std::nullopt;
  return fmt::format(
      "{} is not masked: a unit with ManagedOOM properties or any local user can start it, and "
      "that stops forestall.service; mask it.",
      kUnit);
}

std::string managed_oom_source_advice(const SystemdOomdFacts& facts, bool by_dbus) {
  if (facts.process == "forestall") {
    return fmt::format("managedOOM: the agent in {} reads the properties {}.", kUnit,
                       by_dbus ? "over D-Bus (source: dbus)" : "by PID 1's varlink socket");
  }
  if (!facts.process.empty()) {
    return fmt::format(
        "managedOOM: '{}' runs as {} and kills by the same properties; stop and mask that unit, or "
        "run the agent as it (systemd-oomd.conf, see forestall(8)).",
        printable(facts.process), kUnit);
  }
  if (facts.can_start) {
    return fmt::format(
        "managedOOM: an agent in forestall.service reads the properties over D-Bus. {} is not "
        "masked: any local user can start it by a message on the bus, and that stops "
        "forestall.service; mask it.",
        kUnit);
  }
  return "managedOOM: an agent in forestall.service reads the properties over D-Bus.";
}

}  // namespace forestall::cli
