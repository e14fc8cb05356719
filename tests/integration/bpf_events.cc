// SPDX-License-Identifier: Apache-2.0
#include "integration/bpf_events.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace forestall::test {
namespace {

// tmpfs does not cache holes, and what it does hold cannot be reclaimed without swap: there (in the
// VMs) an empty zram disk takes the part of the sparse file.
std::string empty_zram_disk(Bytes size) {
  if (std::ifstream current("/sys/block/zram0/disksize"); current) {
    long long bytes = 0;
    current >> bytes;
    if (bytes == 0) std::ofstream("/sys/block/zram0/disksize") << size.count;
    return "/dev/zram0";
  }
  throw std::runtime_error("neither a disk-backed temporary directory nor zram0");
}

}  // namespace

CacheFile::CacheFile(Bytes size) : size_(size) {
  char name[] = "/var/tmp/forestall-cache-XXXXXX";
  const UniqueFd fd(::mkostemp(name, O_CLOEXEC));
  struct statfs where {};
  if (fd && ::fstatfs(fd.get(), &where) == 0 && where.f_type != TMPFS_MAGIC &&
      where.f_type != RAMFS_MAGIC && ::ftruncate(fd.get(), size.count) == 0) {
    path_ = name;
    is_file_ = true;
    return;
  }
  if (fd) ::unlink(name);
  path_ = empty_zram_disk(size);
}

CacheFile::~CacheFile() {
  if (is_file_) ::unlink(path_.c_str());
}

int CacheFile::read_through(int times) const {
  const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return 1;
  std::vector<char> buffer(64 * 1024);
  for (int round = 0; round < times; ++round) {
    for (off_t at = 0; at < size_.count;) {
      const ssize_t got = ::pread(fd.get(), buffer.data(), buffer.size(), at);
      if (got < 0) return 2;
      if (got == 0) break;
      at += got;
    }
  }
  return 0;
}

}  // namespace forestall::test
