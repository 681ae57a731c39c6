//! File access of the log: the operating system, or a simulated disk in tests.

use std::fmt;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A directory to create, rename and remove files in. Nothing is durable before [`Directory::sync`].
pub(crate) trait Directory: fmt::Debug + Send {
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<SharedFile>;

    /// Opens a file and truncates it, or creates it.
    fn create(&self, name: &str) -> io::Result<SharedFile>;

    fn exists(&self, name: &str) -> io::Result<bool>;

    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes file names durable, but not contents.
    fn sync(&self) -> io::Result<()>;
}

/// A file with positioned access. Nothing is durable before [`LogFile::sync_data`].
pub(crate) trait LogFile: fmt::Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;

    /// Reads bytes; none at the end of the file.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    fn set_len(&self, size: u64) -> io::Result<()>;

    /// Makes contents and size durable.
    fn sync_data(&self) -> io::Result<()>;
}

/// A shared file, for the writer and concurrent readers.
pub(crate) type SharedFile = Arc<dyn LogFile>;

/// A directory of the operating system. New files are accessible to their owner only.
#[derive(Debug)]
pub(crate) struct SystemDirectory(pub(crate) PathBuf);

impl Directory for SystemDirectory {
    fn open(&self, name: &str) -> io::Result<SharedFile> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(self.0.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<SharedFile> {
        Ok(Arc::new(private_file().truncate(true).open(self.0.join(name))?))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.0.join(name).try_exists()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        sync_directory(&self.0)
    }
}

/// Options for new files, accessible to their owner only.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(crate) fn sync_directory(directory: &std::path::Path) -> io::Result<()> {
    // Other systems cannot open directories as files.
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

impl LogFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, bytes, offset)
    }

    /// A log is used by one thread at a time, so the cursor is not shared.
    #[cfg(not(unix))]
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        use std::io::{Read as _, Seek as _};

        let mut file = self;
        file.seek(io::SeekFrom::Start(offset))?;
        file.read(bytes)
    }

    #[cfg(unix)]
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, offset)
    }

    #[cfg(not(unix))]
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        use std::io::{Seek as _, Write as _};

        let mut file = self;
        file.seek(io::SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        Self::set_len(self, size)
    }

    fn sync_data(&self) -> io::Result<()> {
        Self::sync_data(self)
    }
}

/// Reads a file from an offset on.
#[derive(Debug)]
pub(crate) struct Reader {
    file: SharedFile,
    offset: u64,
}

impl Reader {
    pub(crate) fn new(file: SharedFile, offset: u64) -> Self {
        Self { file, offset }
    }
}

impl io::Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(self.offset, bytes)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl io::Seek for Reader {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let offset = match to {
            io::SeekFrom::Start(offset) => Some(offset),
            io::SeekFrom::Current(distance) => self.offset.checked_add_signed(distance),
            io::SeekFrom::End(distance) => self.file.size()?.checked_add_signed(distance),
        };
        self.offset = offset.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.offset)
    }
}
