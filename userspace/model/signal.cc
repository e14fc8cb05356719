// SPDX-License-Identifier: Apache-2.0
#include "model/signal.h"

namespace forestall {

std::optional<Signal> parse_signal(std::string_view text) {
  for (const SignalRow& row : kSignalTable) {
    if (row.name == text) return row.signal;
  }
  return std::nullopt;
}

std::string_view to_string(Resource resource) {
  switch (resource) {
    case Resource::memory: return "memory";
    case Resource::ephemeral_storage: return "ephemeral-storage";
    case Resource::inodes: return "inodes";
    case Resource::pids: return "pids";
  }
  return "";
}

std::string_view to_string(Filesystem filesystem) {
  switch (filesystem) {
    case Filesystem::nodefs: return "nodefs";
    case Filesystem::imagefs: return "imagefs";
    case Filesystem::containerfs: return "containerfs";
  }
  return "";
}

}  // namespace forestall
