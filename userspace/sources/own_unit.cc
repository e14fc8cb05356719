// SPDX-License-Identifier: Apache-2.0
#include "sources/own_unit.h"

#include <fcntl.h>

#include "base/parse.h"
#include "kernel/held_file.h"

namespace forestall::sources {

std::optional<std::string> parse_unit_path(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = next_field(text, '\n');
    next_field(line, ':');
    const std::string_view controllers = next_field(line, ':');
    if (controllers != "name=systemd") continue;
    if (!line.starts_with('/') || line == "/") return std::nullopt;
    return std::string(line);
  }
  return std::nullopt;
}

std::optional<std::string> unit_path(const std::string& cgroup_file) {
  const auto file = kernel::HeldFile::open(AT_FDCWD, cgroup_file.c_str(), cgroup_file);
  if (!file) return std::nullopt;
  std::string buffer;
  const auto text = file->read(buffer);
  return text ? parse_unit_path(*text) : std::nullopt;
}

}  // namespace forestall::sources
