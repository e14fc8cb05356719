// SPDX-License-Identifier: Apache-2.0
// Space and inodes of the filesystems eviction signals speak of (kubelet.md §2.3), on held
// directories: a look is one fstatfs() each and opens nothing.
//
// An open directory keeps its filesystem mounted: whoever wants to unmount it must stop the agent,
// as he must stop kubelet and the runtime. fstatfs() of a filesystem that somebody serves (NFS,
// FUSE, …) waits for that server, and the loop with it, so those are not read at all. Their type is
// looked up in the mount table before such a place is touched for the first time; a network mount
// that comes to lie over a place in use later is not looked for.
//
// Two places are on one filesystem when their st_dev is equal. Subvolumes of btrfs have one each
// although they share their space, so a node whose images are in a subvolume of their own is taken
// for one with a filesystem of its own; the figures are right all the same.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "model/config.h"
#include "model/observation.h"

namespace forestall::sources {

class FilesystemReader {
 public:
  // `proc` is where the agent's own mount table is found. Nothing is opened before refresh().
  FilesystemReader(FilesystemPlaces places, std::string proc);

  // Another configuration: if the places differ, the next refresh() decides on the layout anew.
  void configure(const FilesystemPlaces& places);
  // Where the container runtime keeps images and writable layers: counts for what the configuration
  // leaves open, from the next refresh() on. Empty: on kubelet's filesystem. Until this was called,
  // a configuration with a runtime and no imagefs has no layout and no imagefs.
  void discovered(std::string imagefs, std::string containerfs);

  // Opens what is not open yet, or is another directory than it was (a filesystem was mounted on
  // it). Once every place that is named is there, the layout is decided, for good. A place that is
  // not there is told unless it is the default one.
  void refresh(std::vector<SourceNote>& notes);

  // Fresh values of all of them.
  [[nodiscard]] FilesystemSamples read(MonotonicTime now, std::vector<SourceNote>& notes) const;
  // Of one; nothing when it is not there or cannot be read. Where images (writable layers) have no
  // place of their own, the sample is that of kubelet's filesystem (of the images').
  [[nodiscard]] std::optional<FilesystemSample> read(Filesystem filesystem, MonotonicTime now,
                                                     std::vector<SourceNote>& notes) const;
  // Whether it is there and can be read without waiting for a server.
  [[nodiscard]] bool has(Filesystem filesystem) const;
  [[nodiscard]] std::optional<FilesystemLayout> layout() const { return layout_; }

 private:
  struct Place {
    std::string path;  // empty: none of its own
    bool expected = true;
    UniqueFd directory;  // O_PATH
    dev_t device = 0;
    ino_t inode = 0;
  };
  void name_places();
  void open(Place& place, std::vector<SourceNote>& notes);
  void decide_layout(std::vector<SourceNote>& notes);
  // Whose figures count for `filesystem`; null when that is not known yet.
  [[nodiscard]] const Place* place_of(Filesystem filesystem) const;

  FilesystemPlaces places_;
  std::string proc_;
  bool runtime_answered_ = false;
  std::string runtime_imagefs_;
  std::string runtime_containerfs_;
  Place nodefs_;
  Place imagefs_;
  Place containerfs_;
  std::optional<FilesystemLayout> layout_;
};

}  // namespace forestall::sources
