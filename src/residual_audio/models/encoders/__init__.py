"""The encoders: one file each, found by :data:`residual_audio.models.registry.ENCODERS`. Adding one is adding a file."""
