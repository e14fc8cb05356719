// SPDX-License-Identifier: Apache-2.0
// The cgroup of a process's unit of systemd.
//
// On v2 it is the memory cgroup. On v1 systemd has a hierarchy of its own, "name=systemd", and
// makes a memory cgroup only for a unit with MemoryAccounting: all other units share that of their
// parent, whose path does not contain the name of the unit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forestall::sources {

// The path in the hierarchy of systemd, from the text of /proc/PID/cgroup. Nothing: there is none,
// or it is the root, which is no unit.
[[nodiscard]] std::optional<std::string> parse_unit_path(std::string_view text);

// From the file /proc/PID/cgroup.
[[nodiscard]] std::optional<std::string> unit_path(const std::string& cgroup_file);

}  // namespace forestall::sources
