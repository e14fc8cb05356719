// SPDX-License-Identifier: Apache-2.0
#include "cases/short_node.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "support/temp_tree.h"

namespace forestall::vm {
namespace {

Bytes available_memory() {
  std::istringstream meminfo(test::read_text("/proc/meminfo"));
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemAvailable:")) return {std::stoll(line.substr(13)) * 1024};
  }
  throw std::runtime_error("/proc/meminfo without MemAvailable");
}

}  // namespace

VmSetting::VmSetting(const std::string& name, const std::string& value)
    : path_("/proc/sys/vm/" + name), before_(test::read_text(path_)) {
  std::ofstream(path_) << value;
}

VmSetting::~VmSetting() {
  std::ofstream(path_) << before_;
}

bool kernel_has_oopsed() {
  return (std::stoull(test::read_text("/proc/sys/kernel/tainted")) & (1ULL << 7)) != 0;
}

ShortNode::ShortNode() : small_(mib(64)), large_(mib(768)) {
  scratch_.limit(limited_, mib(24));
}

test::Child ShortNode::reads(const std::string& path, const test::CacheFile& cache) {
  return test::Child([this, &cache, path] {
    std::ofstream("/proc/self/oom_score_adj") << 1000;
    scratch_.add(path, ::getpid());
    return cache.read_through(test::CacheFile::kUntilEnded);
  });
}

void ShortNode::start() {
  readers_[0].emplace(reads(limited_, small_));
  for (std::size_t i = 1; i < std::size(readers_); ++i) readers_[i].emplace(reads(filler_, large_));
  // Leaves the readers too little memory to cache their file.
  const auto size = static_cast<std::size_t>((available_memory() - mib(96)).count);
  hog_.emplace([this, size] {
    std::ofstream("/proc/self/oom_score_adj") << 1000;
    scratch_.add(filler_, ::getpid());
    void* area = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) return 1;
    // Huge pages, because an emulated machine needs a minute to touch so many small ones.
    ::madvise(area, size, MADV_HUGEPAGE);
    for (std::size_t at = 0; at < size; at += 4096) static_cast<volatile char*>(area)[at] = 1;
    return ::pause();
  });
}

}  // namespace forestall::vm
