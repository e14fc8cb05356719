// SPDX-License-Identifier: Apache-2.0
#include "kernel/mount_table.h"

#include <linux/magic.h>

#include <algorithm>
#include <array>

#include "base/parse.h"

namespace forestall::kernel {
namespace {

// A process serves even local block devices under FUSE (fuseblk: ntfs-3g).
constexpr std::array<std::string_view, 11> kServed{
    "nfs", "nfs4", "cifs", "smb3", "ceph", "afs", "9p", "fuse", "fuseblk", "virtiofs", "lustre"};

constexpr std::array<long, 7> kServedMagic{NFS_SUPER_MAGIC,  FUSE_SUPER_MAGIC, CIFS_SUPER_MAGIC,
                                           SMB2_SUPER_MAGIC, CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,
                                           V9FS_MAGIC};

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

// fs/proc_namespace.c escapes blank, tab, newline, backslash and '#' as \ooo.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) &&
                        is_octal(text[i + 2]) && is_octal(text[i + 3]);
    if (!escape) {
      plain.push_back(text[i]);
      continue;
    }
    const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
    plain.push_back(static_cast<char>(code));
    i += 3;
  }
  return plain;
}

}  // namespace

std::optional<std::string> mounted_type(std::string_view mountinfo, std::string_view path) {
  std::optional<std::string> type;
  std::size_t depth = 0;
  while (!mountinfo.empty()) {
    const auto line = next_field(mountinfo, '\n');
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    auto before = line.substr(0, dash);
    for (int skipped = 0; skipped < 4; ++skipped) next_word(before);
    const auto point = unescape(next_word(before));
    if (point.size() < depth || point.empty() || !path_is_within(path, point)) continue;
    auto after = line.substr(dash + 3);
    type = std::string(next_word(after));
    depth = point.size();
  }
  return type;
}

bool protects_recursively(std::string_view mountinfo) {
  while (!mountinfo.empty()) {
    const auto line = next_field(mountinfo, '\n');
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    auto after = line.substr(dash + 3);
    if (next_word(after) != "cgroup2") continue;
    next_word(after);  // the source
    while (!after.empty()) {
      if (next_field(after, ',') == "memory_recursiveprot") return true;
    }
  }
  return false;
}

bool answers_locally(std::string_view type) {
  if (type.starts_with("fuse.")) return false;
  return std::find(kServed.begin(), kServed.end(), type) == kServed.end();
}

bool answers_locally(long magic) {
  return std::find(kServedMagic.begin(), kServedMagic.end(), magic) == kServedMagic.end();
}

}  // namespace forestall::kernel
