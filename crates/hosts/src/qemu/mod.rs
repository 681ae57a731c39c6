//! Provider of virtual machines of QEMU.
