// SPDX-License-Identifier: Apache-2.0
#include "integration/bpf_events.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace forestall::test {
namespace {

constexpr const char* kZramControl = "/sys/class/zram-control/";

// tmpfs does not cache holes, and its pages cannot be reclaimed without swap. So in the VMs an
// empty zram disk replaces the sparse file. Returns its number.
int add_zram_disk(Bytes size) {
  int number = -1;
  std::ifstream(kZramControl + std::string("hot_add")) >> number;
  if (number < 0) throw std::runtime_error("neither a disk-backed /var/tmp nor zram");
  std::ofstream disk("/sys/block/zram" + std::to_string(number) + "/disksize");
  disk << size.count << std::flush;
  if (!disk) throw std::runtime_error("zram disksize");
  return number;
}

}  // namespace

CacheFile::CacheFile(Bytes size) : size_(size) {
  char name[] = "/var/tmp/forestall-cache-XXXXXX";
  const UniqueFd fd(::mkostemp(name, O_CLOEXEC));
  struct statfs where {};
  if (fd && ::fstatfs(fd.get(), &where) == 0 && where.f_type != TMPFS_MAGIC &&
      where.f_type != RAMFS_MAGIC && ::ftruncate(fd.get(), size.count) == 0) {
    path_ = name;
    return;
  }
  if (fd) ::unlink(name);
  zram_ = add_zram_disk(size);
  path_ = "/dev/zram" + std::to_string(zram_);
  open_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
}

CacheFile::~CacheFile() {
  open_ = UniqueFd();
  if (zram_ < 0)
    ::unlink(path_.c_str());
  else
    std::ofstream(kZramControl + std::string("hot_remove")) << zram_;
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
